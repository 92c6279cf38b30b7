"""Completions of shells: the script of bash is run, and completes commands, options, files and families."""

import subprocess
import sys

import pytest

from expfam.cli import main

CALL = """
source ./completions
complete_word() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMPREPLY=()
    function=$(complete -p expfam | sed 's/.*-F \\([^ ]*\\).*/\\1/')
    $function expfam "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
    echo "${COMPREPLY[*]}"
}
complete_word """


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("shtab")
    folder = tmp_path_factory.mktemp("completions")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "expfam", "--print-completion", "bash"], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    (folder / "completions").write_text(done.stdout)
    (folder / "people.csv").write_text("age\n1\n")
    (folder / "people").mkdir()
    return folder


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("expfam coa", {"coarsen"}),
        ("expfam fit --out", {"--output"}),
        ("expfam fit peo", {"people", "people.csv"}),
        ("expfam fit people.csv --labels people.", {"people.csv"}),
        ("expfam fit people.csv --output peo", {"people"}),
        ("expfam fit people.csv --start kme", {"kmeans", "kmeans++"}),
        ("expfam fit people.csv --family gaussian_d", {"gaussian_diag"}),
        ("expfam predict peo", {"people"}),
    ],
)
def test_bash_completes(words, wanted, folder):
    done = subprocess.run(["bash", "-c", CALL + words], capture_output=True, text=True, cwd=folder)
    assert set(done.stdout.split()) == wanted, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_have_a_script(shell, capsys):
    pytest.importorskip("shtab")
    assert main(["--print-completion", shell]) == 0
    shown = capsys.readouterr().out
    assert "coarsen" in shown
    assert "expfam" in shown.splitlines()[0] + shown.splitlines()[2]


def test_an_unknown_shell_and_a_missing_library_are_told(capsys, monkeypatch):
    assert main(["--print-completion", "ksh"]) == 2
    assert "choose from" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) == 2
    assert capsys.readouterr().err == "expfam: error: completions need shtab: pip install 'expfam[completion]'\n"
