"""Links given to a `GroupedMixture` are refused with a line that works."""

import numpy as np
import pytest

from expfam import GroupedMixture, Known, Mixture
from expfam.errors import CapabilityError

X = np.random.default_rng(0).poisson([[1.0, 8.0], [8.0, 1.0]] * 20)
GROUPS, LINKS = np.arange(40) % 4, np.arange(40) // 4


@pytest.mark.parametrize(
    ("method", "sampler"), [("fit", "gibbs"), ("fit", "variational"), ("partial_fit", "variational")]
)
def test_the_line_of_the_message_uses_the_links(method, sampler):
    mixture = GroupedMixture("poisson", 3, sampler=sampler, random_state=0)
    with pytest.raises(CapabilityError, match="GroupedMixture cannot use links") as raised:
        getattr(mixture, method)(X, groups=GROUPS, links=LINKS)
    line = str(raised.value).partition("write ")[2].partition(", which knows")[0]
    fitted = eval(line, {"Mixture": Mixture, "X": X, "links": LINKS})
    assert Known(links=LINKS).agrees(fitted.labels_)
    assert fitted.n_components == 3
