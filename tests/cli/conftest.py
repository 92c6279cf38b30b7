"""What the tests of commands share."""

import json

import pytest

from expfam.cli import main


@pytest.fixture
def said(capsys):
    """Return the function that runs a command with ``--json`` and returns what it says."""

    def said(*arguments):
        assert main([*map(str, arguments), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return said
