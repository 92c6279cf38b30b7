"""
Headlines: short texts
======================

A list of texts goes in as it is. In a mixture each text has one subject. The bars show how probable a word is in its
cluster; the words that set the cluster apart come first.
"""

from expfam import Mixture
from expfam.displays import ClusterMeansDisplay

headlines = [
    "The striker scored two goals in the final match",
    "The home team won the match by one goal",
    "Their goalkeeper saved a penalty in the match",
    "The team lost the cup final on penalties",
    "A late goal decided the match for the away team",
    "The coach praised the team and its goalkeeper",
    "Shares fell as the bank cut its profit forecast",
    "The bank raised interest rates again",
    "Profit at the bank rose and its shares gained",
    "Investors sold shares after the profit warning",
    "Interest rates may fall, the central bank said",
    "Shares of the company rose on higher profit",
    "Heavy rain and strong wind hit the coast",
    "Snow and strong wind closed roads in the north",
    "Rain will reach the north and the coast by night",
    "Warm and dry weather follows the heavy rain",
    "Strong wind and snow are expected at night",
    "Dry weather and little wind on the coast",
]
mixture = Mixture(random_state=0).fit(headlines)
words = mixture.vectorizer_.get_feature_names_out()
ClusterMeansDisplay.from_estimator(mixture, feature_names=words).plot(kind="words")

# %%
# New texts, with the probability of each cluster:

mixture.predict_proba(["Their team won the cup", "Rain on the coast and snow in the north"]).round(2)
