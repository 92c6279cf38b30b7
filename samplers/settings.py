"""Frozen settings: constructor keywords stored unchanged, with repr, equality and `get_params`."""

import inspect


class Settings:
    """Base of kernels and proposals: what they are is what their constructor was told, and nothing of a run.

    Subclasses store each keyword of their constructor under its own name and do no work there.
    """

    @classmethod
    def _parameter_names(cls):
        return [
            name
            for name, parameter in inspect.signature(cls.__init__).parameters.items()
            if name != "self" and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]

    def get_params(self, deep=True):
        """Settings by name."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"

    def __eq__(self, other):
        return type(self) is type(other) and self.get_params() == other.get_params()

    __hash__ = None  # type: ignore[assignment]
