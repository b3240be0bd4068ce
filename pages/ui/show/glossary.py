"""The words of this app, each in a sentence: one click away on every page."""

from __future__ import annotations

from urllib.parse import quote_plus

PAPER = "Teacher-Anchored Selection of Post-Training Quantized Models under Domain Shift"
# Its title, searched for: we know of no lasting address of the paper itself.
PAPER_LINK = f"https://scholar.google.com/scholar?q={quote_plus(PAPER)}"

GLOSSARY: dict[str, str] = {
    "Teacher": (
        "The trained float model you start from. Candidates are made from its weights, or are files of your"
        " own that are compared with it."
    ),
    "Candidate": (
        "One model that could be deployed: a quantized version of the teacher, or a file of your own. A"
        " version made here is named after its recipe: `b4-channel-q99.5-ends` has 4 bits, one scale per"
        " output channel, weights clipped at their 99.5th percentile, and float first and last layers."
    ),
    "Family": "All candidates that compete; the standard family has 72.",
    "Target": (
        "Where the model will work. It usually differs from what the teacher was trained on; that difference"
        " is the shift."
    ),
    "Pool": "Your target images without labels. Every candidate is run on all of them.",
    "Labeled sample": "The few pool images whose right class you told us.",
    "Anchor": (
        "A score that needs no labels and that labels then correct; Anchorpoint is named after it. Here it is"
        " the distortion: how far a candidate's predictions lie from the teacher's on the pool, in nats."
        " Lower is closer."
    ),
    "Anchored rule": (
        "A rule that adds to the anchor what the labels say, times a coefficient. The coefficient is found by"
        " cross-validation inside the labeled sample. CE-combo and Alignment are anchored rules."
    ),
    "Direct validation": (
        "Choose by the labels alone: the candidate with the lowest loss, or the highest accuracy, on the"
        " labeled sample."
    ),
    "Label-free rule": (
        "Choose from predictions alone. Each such rule assumes something that the page “Confidence collapse”"
        " checks."
    ),
    "Loss": (
        "Cross-entropy: minus the logarithm of the probability given to the right class. Lower is better;"
        " being sure and wrong is punished hardest."
    ),
    "Nat": (
        "The unit of loss, distance and regret. A model that always gives the right class 90 % has a loss of"
        " 0.11 nats; at 50 % it is 0.69, at 10 % 2.3. Guessing among 10 classes costs 2.3 nats. A difference"
        " of 0.01 is rarely worth an argument; 0.1 multiplies the probability of the right class by 0.9."
    ),
    "Regret": (
        "How much higher a pick's loss is than that of the best candidate. 0 is perfect. Only a study, which"
        " knows all labels, can measure it."
    ),
    "Confidence": (
        "The probability a model gives to the class it predicts. Quantized models can be sure and wrong."
    ),
    "Collapse": "A candidate that is hardly better than guessing: its accuracy is at most 1.5 times chance.",
    "Memory budget": "The most weight memory a candidate may need, as a share of the float teacher's.",
    "The paper": (
        f"“{PAPER}”, by Alejandro Rodriguez Dominguez, Muhammad Shahzad and Xia Hong. The family of 72, the"
        f" anchored rules and the study follow it ([look it up]({PAPER_LINK}))."
    ),
    "Tie": (
        "Several candidates share the best score. The first in the list is taken, which usually has the"
        " fewest bits."
    ),
}
