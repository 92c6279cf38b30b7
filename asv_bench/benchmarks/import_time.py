"""What `import expfam` costs, and what the first estimator costs, in a fresh interpreter."""

import subprocess
import sys
import tempfile


def seconds_of(statement, repeats=5):
    """Least time a statement takes in a fresh interpreter, without the interpreter's own start."""
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    runs = [
        # started elsewhere: a checkout's folder expfam/ is not the package
        subprocess.run(
            [sys.executable, "-c", code], cwd=tempfile.gettempdir(), capture_output=True, text=True, check=True
        )
        for _ in range(repeats)
    ]
    return min(float(run.stdout) for run in runs)


class ImportTime:
    """Seconds of imports."""

    statements = {  # noqa: RUF012
        "package": "import expfam",
        "family": "from expfam import Multinomial",
        "kernel": "from expfam.samplers import CollapsedGibbs",
        "estimator": "from expfam import Mixture",
    }
    params = list(statements)  # noqa: RUF012
    param_names = ["what"]  # noqa: RUF012
    timeout = 120

    def track_seconds(self, what):
        return seconds_of(self.statements[what])

    track_seconds.unit = "seconds"
