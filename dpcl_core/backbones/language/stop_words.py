"""English stop words, to which the published method adds no noise.

The publication gives no list. This one has the closed classes (articles, pronouns, prepositions, conjunctions, auxiliaries
and the most common adverbs) in lower case, without words that are also common surnames or content words.
"""

from __future__ import annotations

_LISTED = """
    a an the this that these those
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves who whom whose which what one's
    i'm i've i'd i'll you're you've you'd you'll he's he'd he'll she's she'd she'll it's it'd it'll we're we've we'd we'll
    they're they've they'd they'll that's there's here's what's who's let's
    am is are was were be been being have has had having do does did doing would could should shall might must ought can
    isn't aren't wasn't weren't haven't hasn't hadn't don't doesn't didn't won't wouldn't can't cannot couldn't shouldn't
    of at by for with about against between into through during before after above below to from up down in out on off over
    under upon within without along across behind beside near since until toward towards among around
    and but or nor if because as while so than though although unless whether either neither both
    again further then once here there when where why how all any each few more most other some such no not only own same
    too very just also yet still even ever never now
"""
STOP_WORDS = frozenset(_LISTED.split())
