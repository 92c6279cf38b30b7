# What the commands of this folder share: the checkout, a temporary folder, steps with their seconds, environments. Sourced.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/expfam-ci.XXXXXX")
title='' started=0
trap 'code=$?; [ $code -eq 0 ] || echo "FAILED: ${title:-start}" >&2; end_jobs; rm -rf "$work"; exit $code' EXIT

end_jobs() { # what still runs in the background must not write into the folder that goes
    local running
    running=$(jobs -p)
    [ -z "$running" ] || { kill $running; wait $running; } 2>/dev/null || true
}

close() {
    if [ -n "$title" ]; then printf -- '--- %s: %d s\n' "$title" $((SECONDS - started)); fi
    title=''
}
step() {
    close
    title=$1 started=$SECONDS
    printf '\n=== %s\n' "$title"
}
require_python() {
    "$python" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else f"Python 3.10 or later is needed, this is {sys.version}")'
}
activate() { # an environment's `python` and scripts, by the names the README uses
    PATH="$1/bin:$base_path"
    export PATH VIRTUAL_ENV="$1"
    hash -r
}

unset PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE EXPFAM_DEBUG EXPFAM_ISA
# Of what is installed, files are compiled as they are imported: most never are.
export PYTHONNOUSERSITE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_COMPILE=0 MPLBACKEND=Agg
base_path=$PATH
python=${PYTHON:-python3}
