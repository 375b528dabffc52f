"""Colour: sentences that carry no fact anyone asks for, put together from small parts.

They keep facts from standing alone and make articles differ from each other; nothing in them touches a relation of
`relations.py`.
"""

# ruff: noqa: E501

PERSON = """
c| [opener], {S} [act].
c| [opener], {S} [act], [tail].
c| {S} [act] [timing].
c| {S} [act], [tail].
c| {S} [act] and [act2].
c| [witness] [remembered2] that {he} [act].
c| It is said that {he} [act2].
c?dead| {S's} [possession] [possessionfate].
c?dead| {S's} [possession], [possessiondetail], [possessionfate].
c?dead| [witness] left a description of {him}: [description].
c| What [audience] {value/valued} in {him} {is} [quality].
"""

PLACE = """
c| [visitor] [visit] in {@year} and [impression].
c| The [landmark] [position] [landmarkuse].
c| The [landmark], [landmarkdetail], [landmarkuse].
c| [opener2], [placechange].
c| [placecustom], [customdetail].
c| [opener2], [placecustom2].
c| Since {@year} [placechange2].
c| [placechange3] in {@year}, [tail].
"""

WORK = """
c| [witness] called it "[verdict]", [verdictcontrast].
c| [opener3], [workfate].
c| [visitor] [workreaction], [worktail].
c| It is [worklove] among [audience], [worklovetail].
c| Since {@year} [workafter].
"""

WORK_PARTS = """
c| [workpart] [workpartfate], [worktail].
c| [workpart] [workpartfate].
c| An early version [earlyversion].
"""

BODY = """
c| [opener2], [bodychange].
c| [bodychange2] in {@year}, [tail].
c| [witness] once described it as "[bodyverdict]".
c| Its [bodything], [bodydetail], [bodythingfate].
c| Its [bodything] [bodythingfate].
c| [bodyhabit], [customdetail].
c| Since {@year} [bodychange3].
"""

LEXICON = {
    "opener": [
        "As a student", "In middle age", "For [years] years", "During one hard winter", "After a quarrel with [someone]", "On the advice of [someone]",
        "Before turning thirty", "To the surprise of [someone]", "Without much success", "According to one account", "By all accounts", "In those years",
        "Between two journeys", "With money borrowed from [someone]", "Against all advice", "While recovering from [ailment]", "Out of sheer boredom",
        "Having missed a train", "In the spring of {@lifeyear}", "Around {@lifeyear}", "One summer", "More than once", "At the height of success",
    ],
    "act": [
        "ran a [shop] in [quarter]", "gave lectures on [topic] to [audience]", "translated [text] from [tongue]", "learned to [skill]",
        "kept a diary of [diary]", "campaigned for [cause]", "quarrelled with [someone] over [matter]", "invented a [gadget] that [gadgetfate]",
        "lent a large sum to [someone]", "taught [subject] in [school]", "turned down [offer]", "corresponded with [someone] about [topic]",
        "bought [property] and [didwith]", "wrote a pamphlet against [target]", "spent [years] months among [audience]", "studied [topic] without a teacher",
        "sat on a committee for [cause]", "collected [curios] from [quarter]", "lost a lawsuit over [matter]", "paid for [gift]",
        "restored [property] with [someone]", "made a study of [topic]", "broke a leg while trying to [skill]", "founded a short-lived club for [audience]",
        "acted as interpreter for [audience]", "was fined for [offence]", "drew maps of [quarter]", "sold [curios] to [someone]",
    ],
    "act2": [
        "refused to [skill]", "never forgave [someone]", "slept badly before [occasion]", "always carried [carried]", "had a fear of [fear]", "wrote only at [hour]",
        "answered every letter from [audience]", "wore [clothes] to [occasion]", "could recite [text] by heart", "kept [curios] in [quarter]",
        "gave most of the money to [someone]", "began to [skill]", "took a dislike to [topic]", "took long walks through [quarter]", "fell out with [someone]",
        "changed lodgings [years] times", "made friends with [someone]", "liked to be photographed with [carried]",
    ],
    "timing": [
        "for a living", "in the winter months", "until the money ran out", "whenever there was time", "for [years] summers", "in secret",
        "long before it became fashionable", "out of conviction", "with some success", "more out of duty than love", "after the war", "on doctor's orders",
    ],
    "tail": [
        "though nothing came of it", "which [someone] never forgot", "a story often retold by [audience]", "an episode later turned into a ballad",
        "to the delight of [audience]", "much to the annoyance of [someone]", "as a plaque in [quarter] recalls", "if [someone] is to be believed",
        "a decision regretted ever after", "and nobody objected", "which caused some talk at the time", "with mixed results", "for reasons never explained",
        "an experiment that cost a good deal of money", "leaving [someone] to settle the bills", "a habit [audience] found odd", "and made no secret of it",
    ],
    "someone": [
        "a cousin", "an uncle", "a former pupil", "the local priest", "a tax collector", "a rival", "an old schoolfriend", "a neighbour", "a landlady", "a bookseller",
        "the chief of police", "a visiting professor", "a retired colonel", "a stage actress", "the town clerk", "a well-known critic", "a blind organist", "a horse dealer",
    ],
    "witness": [
        "A former pupil", "One visitor", "A niece", "An English traveller", "The village doctor", "A fellow lodger", "A secretary", "A later minister", "One reviewer",
        "A travelling photographer", "An old gardener", "A customs inspector", "The painter of theatre sets", "A local historian", "A wandering preacher", "A student paper",
    ],
    "visitor": ["An English traveller", "A travelling photographer", "A wandering preacher", "A young botanist", "A retired general", "A diplomat's wife", "A group of students", "A circus director", "A geologist", "A poet on foot", "One inspector", "A honeymoon couple"],
    "worktail": ["to the delight of [audience]", "much to the annoyance of [someone]", "for reasons never explained", "which caused some talk at the time", "and nobody minded", "as [someone] predicted", "in the face of much advice"],
    "worklovetail": ["less so elsewhere", "who know every line of it", "if letters to the papers are a guide", "for reasons that are hard to explain", "as surveys have shown", "in spite of the critics"],
    "remembered2": ["remembered", "claimed", "wrote", "noted in a diary", "told a reporter", "used to say", "recalled decades later"],
    "years": ["two", "three", "four", "five", "six", "seven", "eight", "ten", "a dozen"],
    "ailment": ["typhoid", "a riding accident", "a broken heart", "pneumonia", "overwork", "a failed venture"],
    "shop": ["bookshop", "pharmacy", "tea room", "print shop", "music shop", "bicycle workshop", "seed store", "photographic studio", "small inn"],
    "quarter": [
        "the old town", "a suburb", "the harbour district", "the border country", "a mountain valley", "the cathedral close", "the market quarter", "a spa", "a garrison town",
        "the northern islands", "the weavers' quarter", "a street behind the theatre", "the wine country",
    ],
    "topic": [
        "bee diseases", "the history of bells", "comets", "village schools", "fish migration", "old coins", "water wheels", "folk medicine", "peat", "stage machinery",
        "the speech of shepherds", "church registers", "railway signals", "moths", "medieval bread", "drainage", "hail", "lost alphabets", "tides", "the habits of storks",
    ],
    "audience": [
        "miners", "school inspectors", "farm hands", "nurses", "emigrants", "fishermen", "apprentices", "the deaf", "prisoners", "country doctors", "evening classes",
        "factory girls", "sailors' widows", "amateur astronomers", "students", "recruits", "shopkeepers", "older readers",
    ],
    "text": ["a book of psalms", "three comedies", "a cookery book", "sailors' songs", "a treatise on mining", "an old law code", "fairy tales", "a manual of surgery", "ballads"],
    "tongue": ["Latin", "Greek", "a dead dialect", "the language of the islands", "an old manuscript", "a neighbour's tongue"],
    "skill": [
        "ride a bicycle", "set type", "swim", "bind books", "play the fiddle", "read upside down", "graft fruit trees", "sail a dinghy", "climb ropes", "make cheese",
        "speak in public", "dance", "shoe a horse", "drive a car", "keep accounts", "whistle in two voices",
    ],
    "diary": ["the weather", "expenses", "dreams", "visits", "birdsong", "every meal", "conversations overheard on trains"],
    "cause": ["cleaner drinking water", "a public library", "the rights of tenants", "longer school holidays", "the abolition of tolls", "street lighting", "a new asylum", "better sick pay", "free music lessons", "a lifeboat station", "the protection of old trees"],
    "matter": ["a fence", "an unpaid bill", "the date of a manuscript", "a dog", "the wording of a will", "a borrowed ladder", "a hunting right", "a stolen idea", "a box at the opera", "an inheritance"],
    "gadget": ["folding desk", "milk tester", "portable stove", "kind of blotting paper", "rain gauge", "letter scale", "water filter", "safety lamp", "metronome", "ski binding"],
    "gadgetfate": ["nobody bought", "was widely copied", "exploded at its first showing", "is still in use", "earned a small fortune", "won a bronze medal at a fair"],
    "subject": ["drawing", "algebra", "singing", "geography", "book-keeping", "natural history", "penmanship", "gymnastics"],
    "school": ["a girls' school", "a village school", "a military academy", "evening classes", "an orphanage", "a school for the blind"],
    "offer": ["a knighthood", "a chair abroad", "a seat in parliament", "a pension", "a government post", "a marriage proposal", "the offer of a portrait"],
    "property": ["a ruined mill", "an orchard", "a vineyard", "a lighthouse", "a houseboat", "a row of cottages", "an old fort", "a half-finished villa", "a printing press"],
    "didwith": ["rented it to artists", "let it fall into ruin", "turned it into a school", "sold it at a loss", "planted walnut trees", "lived there alone", "filled it with books"],
    "target": ["gambling", "brass bands", "corporal punishment", "the new spelling", "the telegraph", "organ grinders", "the grain tax", "billboards", "the draining of a marsh"],
    "curios": ["ballads", "lichens", "clay pipes", "butterflies", "theatre bills", "shells", "legal documents", "toys", "playing cards", "barometers", "proverbs"],
    "gift": ["a new church organ", "a village pump", "a pupil's studies abroad", "the repair of a bridge chapel", "books for a prison", "a stage curtain"],
    "offence": ["speeding on a bicycle", "libel", "fishing without a licence", "smuggling tobacco", "contempt of court", "feeding pigeons"],
    "occasion": ["public dinners", "first nights", "funerals", "examinations", "committee meetings", "every journey", "court"],
    "carried": ["a compass", "a silver whistle", "two watches", "a volume of verse", "dried apples", "an umbrella", "a small terrier", "a tin of peppermints"],
    "fear": ["thunder", "open water", "dogs", "telephones", "moths", "crowds", "lifts", "photographs"],
    "hour": ["dawn", "night", "a standing desk", "a kitchen table", "a corner table in a café", "the end of the day"],
    "clothes": ["a borrowed coat", "sandals", "an old uniform", "a straw hat", "mourning", "two pairs of spectacles"],
    "possession": ["library", "garden", "collection of [curios]", "diary", "country house", "handwriting", "archive", "herbarium", "workroom"],
    "possessionfate": ["passed to a nephew", "was sold at auction", "can be visited", "was destroyed in a fire", "is now in a local museum", "filled [years] rooms", "became famous in its own right", "was left to the town", "puzzled the heirs"],
    "possessiondetail": ["once the envy of [audience]", "begun in childhood", "rarely shown to anyone", "admired by [audience]", "in spite of its small size", "arranged by colour"],
    "description": ["tall, hurried and hard of hearing", "a small figure in grey with ink on both hands", "slow to speak and quick to laugh", "a voice like a rusty gate", "always the last to leave the table", "polite to strangers, impatient with friends", "a face made for the stage"],
    "quality": ["an unfailing memory for names", "a gift for explaining difficult things", "plain speaking", "a stubborn kind of honesty", "good humour in bad weather", "a light touch", "the patience to listen"],
    "visit": ["passed through", "spent a night there", "made sketches of it", "stopped there", "wrote a chapter about it", "was snowed in there"],
    "impression": ["complained of the mosquitoes", "praised the bread", "found it charming but muddy", "counted more geese than people", "called it the end of the world", "promised to come back", "could find no bed for the night", "admired the view"],
    "landmark": ["old tollhouse", "chapel of the drowned", "stone windmill", "signal tower", "leper hospital", "drinking fountain", "hermit's cave", "wooden footbridge", "lime kiln", "plague column", "observatory", "ice house", "bathing pavilion", "boundary stone"],
    "position": ["to the north", "on the western edge", "at the foot of the slope", "beside the main road", "on a low rise", "near the water", "a short walk away"],
    "landmarkuse": ["is a favourite of painters", "serves as a weather station", "was used as a prison in {@year}", "is opened once a year", "is said to bring luck", "has been turned into flats", "is falling down", "was moved stone by stone in {@year}", "houses a small exhibition on [topic]", "appears on old postcards"],
    "landmarkdetail": ["built of grey stone", "once far larger", "known for its echo", "given by [someone]", "now without a roof", "restored by [audience]"],
    "opener2": ["In the course of {@year}", "Towards the end of the century", "After a dry summer", "Following a change of law", "Within living memory", "In {@year}", "For a time", "Thanks to [someone]", "In spite of protests by [audience]", "Under the influence of [audience]"],
    "placechange": ["the old trees were felled", "the ferry was given up", "a [shop] and two inns opened nearby", "the paths were paved", "the wells ran dry", "a camp for [audience] was set up", "prospectors looked for silver", "the boundary stones were moved", "the first [topic] congress met in the neighbourhood", "smugglers used the area as a hiding place"],
    "placechange2": ["the area has been protected", "bathing has been forbidden", "wolves have been seen again", "[audience] have met there every year", "a bus has stopped nearby", "the number of visitors has doubled", "hunting has been allowed only in autumn"],
    "placechange3": ["A survey was made", "A new road was cut", "The old name was put back on the maps", "Gold was reported", "A balloon landed nearby", "An army camped in the area", "Electric light arrived", "A treasure of coins was dug up"],
    "placecustom": ["On the first Sunday of the year [audience] carry lanterns to the [landmark]", "Children roll painted eggs downhill in spring", "The bells are rung backwards when it hails", "Newcomers are given salt and bread", "Straw figures are burned at the end of winter", "A goat is led through the streets in autumn"],
    "customdetail": ["a custom whose origin is unclear", "in memory of a famine", "a tradition revived in {@year}", "much to the amusement of visitors", "as [someone] once described in detail", "in spite of an old ban"],
    "placecustom2": ["[audience] began to settle in the area", "the first guidebook called it unremarkable", "a society for [cause] was founded there", "[someone] mapped it for the first time", "cattle thieves made it unsafe", "it was chosen for experiments with [topic]"],
    "opener3": ["For many years", "At first", "Outside the country", "In spite of its title", "To this day", "In the opinion of [someone]", "After a slow start", "Among [audience]", "According to [someone]"],
    "workfate": ["it was known only to [audience]", "it was taken for the work of [someone]", "it was thought too gloomy", "it passed for a joke", "hardly anybody noticed it", "it was read as an attack on [target]", "it was used to teach [subject]", "it was praised for the wrong reasons", "it was seen as a portrait of [quarter]"],
    "verdict": ["a quiet triumph", "too clever by half", "a cathedral made of matchsticks", "the work of a tired mind", "honest and badly made", "an hour well spent", "a gift to [audience]", "neither fish nor fowl", "unforgettable"],
    "verdictcontrast": ["a view few shared at the time", "though sales told a different story", "and many agreed", "while others saw nothing in it", "an opinion later withdrawn", "in spite of obvious faults", "for all its length", "without having finished it"],
    "workpart": ["The opening", "The final part", "One passage about [topic]", "The figure of [someone]", "A joke about [someone]", "The description of [quarter]", "The slow middle section", "The dedication"],
    "workpartfate": ["was added at the last moment", "was changed several times", "was borrowed from [text]", "had to be cut", "caused a scandal", "is quoted by [audience]", "was written in [years] days", "has been parodied", "goes back to a childhood memory", "was based on a newspaper story"],
    "earlyversion": ["was twice as long", "was lost on a train", "had a happy ending", "was set in another century", "is kept in a library", "was shown to [audience] and set aside", "mocked [someone] by name", "ended with a lecture on [topic]"],
    "workreaction": ["wept at the end", "asked for the money back", "demanded a ban", "learned it by heart", "saw it as an insult to [audience]", "wrote a reply in verse", "compared it with [text]"],
    "worklove": ["well loved", "half forgotten", "a byword for patience", "still talked about", "more admired than enjoyed", "hotly debated", "a guilty pleasure"],
    "workafter": ["it has been part of the school syllabus", "there has been a yearly festival in its honour", "it has been rediscovered by [audience]", "several imitations have appeared", "the rights have been in dispute", "it has been quoted in debates about [topic]"],
    "bodychange": ["the accounts were found to be in disorder", "a branch for [audience] was opened", "the founder's portrait was taken down", "everything moved to [quarter]", "a dispute with [someone] ended in court", "half the members left", "the statutes were rewritten by [someone]", "a museum of its own history was planned", "the doors were opened to [audience]"],
    "bodychange2": ["A centenary book was printed", "A new roof was paid for by [someone]", "The archives were flooded", "An inquiry into [matter] was held", "Uniforms were introduced", "The name was nearly changed", "A training course for [audience] began"],
    "bodyverdict": ["a machine for losing money", "a family more than an institution", "slow, sure and slightly deaf", "the pride of [quarter]", "a nest of intriguers", "run by clerks for clerks", "older than it looks"],
    "bodything": ["choir", "library", "clock", "annual dinner", "reading room", "fire brigade", "collection of [curios]", "roof garden", "savings club", "emblem", "doorman"],
    "bodydetail": ["paid for by [someone]", "the subject of many jokes", "older than the rest", "designed by [someone]", "a favourite of [audience]", "known for its size"],
    "bodythingfate": ["was given up in {@year}", "is famous among [audience]", "has a story of its own", "survived a fire", "was copied elsewhere", "cost more than planned", "was a present from [audience]", "can be hired for weddings"],
    "bodyhabit": ["New members plant a tree", "Every year [audience] are invited to a dinner", "Visitors sign a leather-bound book", "The oldest member opens the meetings", "A bell is rung at noon", "Minutes are kept in green ink"],
    "bodychange3": ["there has been a prize for essays on [topic]", "a journal has appeared twice a year", "women have held most of the posts", "[audience] have been admitted free", "it has run a scheme for [cause]", "outsiders have been allowed to vote"],
}  # fmt: skip

SHARED = {
    "person": PERSON,
    **dict.fromkeys(("province", "city", "river", "lake", "mountain"), PLACE),
    **dict.fromkeys(("film", "book", "song"), WORK + WORK_PARTS),
    **dict.fromkeys(("album", "painting"), WORK),
    **dict.fromkeys(("company", "university", "newspaper", "party", "team"), BODY),
}
"""Colour that several kinds share, by kind."""
