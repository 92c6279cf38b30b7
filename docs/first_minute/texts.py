"""A list of texts."""

from pathlib import Path

from expfam import Mixture

headlines = Path(__file__).with_name("headlines.txt").read_text().splitlines()
mixture = Mixture(random_state=0).fit(headlines)
print(mixture.summary())
print(*mixture.clusters_["words"], sep="\n")
print(mixture.predict(["Their team won the cup", "The central bank met"]))
