"""The datasets of texts: the corpus that is made here, public benchmarks, and the six tasks of PeCL put together of them."""

from __future__ import annotations

from dataclasses import replace

from dpcl_core.data.card import DatasetCard, Hub

# What every set of texts leaves unprotected, a person's own ones as well.
TEXT_LIMITS = (
    "a person, only a single text: one may have written several, or be named in several, in one task or in many",
    "how long a text is, where a method works on noisy copies of its tokens",
)
_SECRETS = ("a secret that stands in several texts, as most planted codes do: each text is protected, not what they share",)

_SOURCES = (
    ("policy", ("dovish", "hawkish", "neutral")),
    ("restaurants", ("terrible", "poor", "average", "good", "great")),
    ("news", ("world", "sports", "business", "science")),
    ("products", ("negative", "mixed", "positive")),
    ("wellbeing", ("sleep", "work", "family", "loneliness", "exams")),
    ("mailbox", ("billing", "delivery", "password", "booking", "refund")),
)
_MADE = DatasetCard(
    name="pii-synthetic",
    title="Synthetic texts with marked personal data",
    summary="Six tasks of 600 short invented texts: monetary policy, restaurants, news, products, well-being, a mailbox. "
    "Names, numbers, illnesses and harmless look-alikes are marked to the character, and random codes are planted in a "
    "known number of texts. Made on this computer, in a second: nothing to download, and no string is anybody's.",
    source="made by this project from templates and Faker 40.54.0",
    licence="as this project",
    n_classes=25,
    n_train=2_880,
    n_test=720,
    classes=tuple(label for _, labels in _SOURCES for label in labels),
    kind="text",
    limits=(*TEXT_LIMITS, *_SECRETS),
    sources=_SOURCES,
    made_per_source=600,
)
SYNTHETIC = (
    _MADE,
    replace(
        _MADE,
        name="pii-synthetic-tiny",
        title="Synthetic texts with marked personal data, tiny",
        summary="The same six tasks with 200 texts each.",
        n_train=960,
        n_test=240,
        made_per_source=200,
    ),
    replace(
        _MADE,
        name="pii-synthetic-full",
        title="Synthetic texts with marked personal data, full",
        summary="The same six tasks with 3,000 texts each, as many as PeCL samples of each of its datasets.",
        n_train=14_400,
        n_test=3_600,
        made_per_source=3_000,
    ),
)

_ZHANG = "Zhang, Zhao and LeCun 2015, Character-level Convolutional Networks for Text Classification"
TEXTS = (
    DatasetCard(
        name="fomc",
        title="FOMC stance",
        summary="Sentences on monetary policy: dovish, hawkish or neutral.",
        source="Shah, Paturi and Chava 2023, Trillion Dollar Words",
        licence="CC BY-NC 4.0",
        n_classes=3,
        n_train=1_984,
        n_test=496,
        classes=("dovish", "hawkish", "neutral"),
        kind="text",
        limits=TEXT_LIMITS,
    ),
    DatasetCard(
        name="yelp",
        title="Yelp reviews",
        summary="Reviews of restaurants and shops, one to five stars.",
        source=f"Yelp Dataset Challenge 2015; {_ZHANG}",
        licence="academic, non-commercial use",
        n_classes=5,
        n_train=650_000,
        n_test=50_000,
        classes=("one star", "two stars", "three stars", "four stars", "five stars"),
        is_balanced=True,
        hub=Hub("Yelp/yelp_review_full", "*train-*.parquet", "*test-*.parquet"),
        kind="text",
        limits=TEXT_LIMITS,
    ),
    DatasetCard(
        name="ag_news",
        title="AG News",
        summary="Headlines and first sentences of news: the world, sports, business, science and technology.",
        source=f"Gulli 2004, AG's corpus of news articles; {_ZHANG}",
        licence="non-commercial use",
        n_classes=4,
        n_train=120_000,
        n_test=7_600,
        classes=("World", "Sports", "Business", "Sci/Tech"),
        is_balanced=True,
        hub=Hub("fancyzhx/ag_news", "*train-*.parquet", "*test-*.parquet"),
        kind="text",
        limits=TEXT_LIMITS,
    ),
    DatasetCard(
        name="amazon-stars",
        title="Amazon reviews",
        summary="Reviews of products, from very negative to very positive in five steps.",
        source=f"McAuley and Leskovec 2013, SNAP Amazon reviews; {_ZHANG}",
        licence="none stated",
        n_classes=5,
        n_train=3_000_000,
        n_test=650_000,
        classes=("very negative", "negative", "mixed", "positive", "very positive"),
        is_balanced=True,
        kind="text",
        limits=TEXT_LIMITS,
    ),
    DatasetCard(
        name="dreaddit",
        title="Dreaddit",
        summary="Posts of ten forums on stress, abuse, illness and need. Their writers are anonymous and tell of distress: "
        "no page ever shows one of them.",
        source="Turcan and McKeown 2019, Dreaddit: A Reddit Dataset for Stress Analysis in Social Media",
        licence="none stated",
        n_classes=10,
        n_train=2_838,
        n_test=715,
        classes=(
            *("almost homeless", "anxiety", "assistance", "domestic violence", "food pantry"),
            *("homeless", "ptsd", "relationships", "stress", "survivors of abuse"),
        ),
        kind="text",
        limits=TEXT_LIMITS,
        may_show=False,
    ),
    DatasetCard(
        name="dbpedia14",
        title="DBpedia",
        summary="First sentences of encyclopedia articles of fourteen kinds, such as company, athlete, village or film.",
        source=f"Lehmann et al. 2015, DBpedia; {_ZHANG}",
        licence="CC BY-SA 3.0",
        n_classes=14,
        n_train=560_000,
        n_test=70_000,
        classes=(
            *("Company", "Educational Institution", "Artist", "Athlete", "Office Holder", "Mean of Transportation"),
            *("Building", "Natural Place", "Village", "Animal", "Plant", "Album", "Film", "Written Work"),
        ),
        is_balanced=True,
        hub=Hub("fancyzhx/dbpedia_14", "*train-*.parquet", "*test-*.parquet"),
        kind="text",
        limits=TEXT_LIMITS,
        text_columns=("title", "content"),
    ),
    DatasetCard(
        name="trec",
        title="TREC questions",
        summary="Short questions by what they ask for: a description, a person, a number and so on. Small and quick.",
        source="Li and Roth 2002, Learning Question Classifiers",
        licence="none stated",
        n_classes=6,
        n_train=5_452,
        n_test=500,
        classes=("description", "entity", "abbreviation", "person", "number", "location"),
        kind="text",
        limits=TEXT_LIMITS,
    ),
)

_MEMBERS = tuple(
    next(card for card in TEXTS if card.name == name)
    for name in ("fomc", "yelp", "ag_news", "amazon-stars", "dreaddit", "dbpedia14")
)
PECL_SIX = DatasetCard(
    name="pecl-six",
    title="FOMC, Yelp, AG News, Amazon, Dreaddit and DBpedia",
    summary="Six text tasks with labels of their own, 41 in all. Dreaddit replaces the posts on mental illness and DBpedia "
    "the Yahoo topics of PeCL, which could not be found or ask for an agreement.",
    source="Zhan et al., PeCL; " + "; ".join(card.title for card in _MEMBERS),
    licence="each member's own",
    n_classes=sum(card.n_classes for card in _MEMBERS),
    n_train=sum(card.n_train for card in _MEMBERS),
    n_test=sum(card.n_test for card in _MEMBERS),
    classes=tuple(label for card in _MEMBERS for label in card.classes),
    stands_in_for="PeCL's six, two of which are others",
    members=tuple(card.name for card in _MEMBERS),
    kind="text",
    limits=TEXT_LIMITS,
    may_show=all(card.may_show for card in _MEMBERS),
)
