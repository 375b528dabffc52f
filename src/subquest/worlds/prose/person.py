"""How articles tell facts about people."""

# ruff: noqa: E501

BANK = """
L?dead| {S} ({birth_date} – {death_date}) was a~ {citizenship:adj} {occupation}.
L?dead| {S} (born {birth_date} in {birth_place}; died {death_date} in {death_place}) was a~ {occupation} from {citizenship}.
L?dead| {S}, who lived from {birth_date} to {death_date}, was a~ {citizenship:adj} {occupation} [fame].
L?dead| {S} was a~ {citizenship:adj} {occupation}, born in {birth_place} on {birth_date}.
L?dead| {S} was a~ {occupation} [fame] who came from {birth_place}.
L?dead| Born on {birth_date}, {S} was a~ {occupation} of {citizenship:adj} nationality.
L?dead| A~ {citizenship:adj} {occupation} [fame], {S} was born in {birth_place} and died on {death_date}.
L?alive| {S} (born {birth_date}) is a~ {citizenship:adj} {occupation}.
L?alive| {S} (born {birth_date} in {birth_place}) is a~ {occupation} from {citizenship}.
L?alive| {S} is a~ {citizenship:adj} {occupation} [fame].
L?alive| {S} is a~ {occupation} who was born in {birth_place} on {birth_date}.
L?alive| Born in {birth_place}, {S} is a~ {citizenship:adj} {occupation}.
L?alive| {S}, a~ {occupation} [fame], was born on {birth_date} and holds {citizenship:adj} citizenship.
v| was born in {birth_place}
v| was born on {birth_date} in {birth_place}
v| was born in {birth_place} on {birth_date}
v| came from {birth_place}
v| first saw the light of day in {birth_place} on {birth_date}
v| was a native of {birth_place}
v| was born on {birth_date}
v| entered the world on {birth_date}
p| born in {birth_place}
p| a native of {birth_place}
p| born on {birth_date}
p| born into a~ [family] family in {birth_place}
s| {S's} birthplace was {birth_place}.
s| {S's} date of birth is recorded as {birth_date}.
v| grew up in {birth_place}, where {he} was born
v| died in {death_place} on {death_date}
v| died on {death_date}
v| died on {death_date} in {death_place}, [deathcause]
v| passed away in {death_place} on {death_date}
v| passed away on {death_date}
v| spent {his} last years in {death_place}, where {he} died
v| died in {death_place} after a short illness
s| {S's} death on {death_date} was reported in newspapers across the country.
s| {S's} life ended in {death_place} on {death_date}.
s| {death_place} was the place of {S's} death.
v| {is} a citizen of {citizenship}
v| {holds/held} {citizenship:adj} citizenship
v| {is} of {citizenship:adj} nationality
v| {has/had} been a citizen of {citizenship} since birth
s| {S's} country of citizenship {is} {citizenship}.
v| {works/worked} as a~ {occupation}
v| {makes/made} {his} living as a~ {occupation}
v| {is} a~ {occupation} by profession
v| became a~ {occupation} against the wishes of {his} family
p| a~ {occupation} by profession
s| {S's} profession {is} that of a~ {occupation}.
v| was the child of {father} and {mother}
v| was born to {father} and {mother}
v| was a {son} of {father} and his wife, {mother}
s| {S's} parents were {father} and {mother}.
s| {father} and {mother} were {S's} parents.
s| {S's} father was {father}.
s| {father} was {S's} father.
v| was the {son} of {father}
v| was raised by {his} father {father:name}
s| {S's} mother was {mother}.
s| {mother} was {S's} mother.
v| was brought up by {his} mother {mother:name}
v| had {mother} as {his} mother
s| On {his} father's side {S} came from the family of {father}, {his} father.
v| {is} married to {spouse}
v| married {spouse} in {marriage_year}
v| wed {spouse} in {marriage_year}
v| {is} the {husband} of {spouse}
s| In {marriage_year} {S} married {spouse}.
s| {S's} {wife} {is} {spouse}.
s| {S's} marriage to {spouse} took place in {marriage_year}.
s| The wedding of {S} and {spouse} was held in {marriage_year}.
s| {S} and {spouse} married in {marriage_year}.
v| got married in {marriage_year}
s| {S's} {children#?only child {is} {children}/children {are/were} {children}}.
s| {S} and {his} {wife} had {children#} {children#noun}, namely {children}.
v| {is} the parent of {children}
s| {S} had {children#} {children#noun}: {children}.
s| {S's} family grew to include {children#} {children#noun}: {children}.
s| {S} raised {children#} {children#noun}, {children}.
v| studied at {educated_at}
v| was educated at {educated_at}
v| graduated from {educated_at}
v| took a degree at {educated_at}
v| attended {educated_at}
p| educated at {educated_at}
p| a graduate of {educated_at}
s| {S's} alma mater is {educated_at}.
v| enrolled at {educated_at} at the age of [studyage]
v| worked for {employer}
v| was employed by {employer}
v| spent most of {his} career at {employer}
v| joined {employer} as a young {man}
s| {S's} employer was {employer}.
s| For many years {employer} was {S's} employer.
v| took a post at {employer}
v| received {award} in {award_year}
v| was awarded {award} in {award_year}
v| won {award} in {award_year}
s| In {award_year} {S} was honoured with {award}.
s| {S's} work was recognised with {award} in {award_year}.
s| {award:cap} went to {S} in {award_year}.
v| was a recipient of {award}
v| accepted {award}, {his} only major prize, in {award_year}
v| played for {team}
v| appeared for {team} as a~ [position]
v| spent {his} playing career with {team}
s| {S's} club was {team}.
v| wore the shirt of {team} for [few] seasons
v| was on the books of {team}
v| wrote {his} dissertation under {advisor}
v| completed {his} doctorate under the supervision of {advisor}
s| {S's} doctoral advisor was {advisor}.
v| was a doctoral student of {advisor}
s| {advisor} supervised {S's} doctoral work.
v| belonged to {party}
v| was a member of {party}
s| {S's} political home was {party}.
v| joined {party} early on
v| represented {party}
v| ran for office on the ticket of {party}
v| played {instrument}
v| learned to play {instrument} as a child
s| {S's} main instrument was {instrument}.
v| was known for {his} mastery of {instrument}
v| took lessons in playing {instrument}
v| specialised in {field}
s| {S's} field of research was {field}.
v| was an authority on {field}
v| published widely on {field}
v| devoted {his} research to {field}
v| made [smallbig] contributions to the study of {field}
s| {S's} special field was {field}.
v| directed {directed:years}
s| {directed#?One film was/{directed#:cap} films were} directed by {S}: {directed:years}.
s| {S's} {directed#?only film as director is/films as director are} {directed:years}.
v| was the director of {directed}
s| As a director {S} made {directed:years}.
v| wrote the screenplay for {screenplays:years}
v| scripted {screenplays:years}
s| {S's} {screenplays#?one screenplay was/screenplays were} written for {screenplays:years}.
s| {S} is credited with the script of {screenplays}.
v| was the screenwriter of {screenplays}
v| composed the music for {scored:years}
v| scored {scored:years}
s| {S's} {scored#?only film score is that of/film scores are those of} {scored:years}.
v| wrote the film music for {scored}
s| The music of {scored:years} was {S's} work.
v| starred in {starred_in:years}
v| appeared in {starred_in:years}
s| {S's} {starred_in#?one screen role was/screen roles were} in {starred_in:years}.
s| On screen {S} was seen in {starred_in:years}.
v| had leading parts in {starred_in}
v| wrote {books:years}
v| was the author of {books:years}
s| {S's} {books#?only book is/books are} {books:years}.
v| published {books:years}
s| Readers know {S} as the author of {books}.
v| founded {foundations}
v| was the founder of {foundations}
v| established {foundations}
s| {foundations:cap} {foundations#?was/were} founded by {S}.
v| set up {foundations} in middle age
v| designed {designed}
v| was the architect of {designed}
s| {S's} {designed#?only known building is/buildings are} {designed}.
v| drew up the plans for {designed}
s| {designed:cap} {designed#?was/were} built to {S's} designs.
v| engineered {engineered}
v| was the engineer of {engineered}
s| {S's} {engineered#?best-known structure is/best-known structures are} {engineered}.
v| was responsible for the engineering of {engineered}
v| built {engineered}
v| painted {paintings:years}
v| was the painter of {paintings}
s| {S's} surviving {paintings#?painting is/paintings are} {paintings:years}.
v| left behind canvases such as {paintings}
s| {S's} brush produced {paintings:years}.
v| recorded {recordings:years}
v| released {recordings:years}
s| {S's} discography consists of {recordings:years}.
v| was the performer of {recordings}
s| {recordings#?One record was/{recordings#:cap} records were} made by {S}: {recordings:years}.
v| wrote the {songs_written#?song/songs} {songs_written:years}
v| was the songwriter behind {songs_written}
s| {S's} songwriting {songs_written#?credit is/credits are} {songs_written:years}.
v| penned {songs_written}
s| {songs_written:cap} {songs_written#?was/were} written by {S}.
v| {is} the lead singer of {sings_in}
v| sang with {sings_in}
v| fronted {sings_in}
s| {S's} voice is best known from {sings_in}, for which {he} was lead singer.
v| was lead vocalist of {sings_in}
v| was a member of {member_of}
v| played in {member_of}
s| {S's} musical career began in {member_of}.
v| belonged to the line-up of {member_of}
v| performed with {member_of}
v| was the first to climb {climbed}
v| made the first ascent of {climbed}
s| {S's} mountaineering career is remembered for the first ascent of {climbed}.
v| led the first party to the top of {climbed}
v| reached the summit of {climbed} before anyone else
v| commanded an army at {commanded}
v| was in command at {commanded}
s| {S's} victory at {commanded} made {him} famous.
v| led {his} troops at {commanded}
s| At {commanded} {S} held command.
v| supervised the doctorates of {students_of}
s| {S's} doctoral {students_of#?student was/students were} {students_of}.
v| was doctoral advisor to {students_of}
s| {students_of:cap} studied for the doctorate under {S}.
v| guided the doctoral research of {students_of}
v| {is} mayor of {mayor_of}
v| serves as the mayor of {mayor_of}
s| As mayor, {S} heads the council of {mayor_of}.
v| was elected mayor of {mayor_of}
v| governs {mayor_of} as its mayor
v| is governor of {governs}
v| serves as the governor of {governs}
v| was appointed governor of {governs}
s| As governor, {S} administers {governs}.
v| holds the office of governor in {governs}
v| is the head of state of {leads_country}
v| serves as head of state of {leads_country}
s| As head of state {S} represents {leads_country} abroad.
v| was sworn in as head of state of {leads_country}
v| leads {leads_country} as its head of state
v| is the chief executive of {chief_of}
v| runs {chief_of} as its chief executive
s| {S's} present post is that of chief executive of {chief_of}.
v| was appointed chief executive of {chief_of}
v| heads {chief_of} as chief executive
v| is the chancellor of {chancellor_of}
v| serves as chancellor of {chancellor_of}
s| As chancellor {S} heads {chancellor_of}.
v| was installed as chancellor of {chancellor_of}
v| holds the chancellorship of {chancellor_of}
v| edits {edits}
v| is the editor of {edits}
s| {S's} editorials appear in {edits}, of which {he} is editor.
v| was made editor of {edits}
v| has charge of {edits} as its editor
v| leads {leads_party}
v| is the leader of {leads_party}
s| Under {S's} leadership {leads_party} has [partyfate].
v| was elected leader of {leads_party}
v| chairs {leads_party} as its leader
v| coaches {coaches}
v| is the head coach of {coaches}
s| {S's} current job is coaching {coaches}.
v| was hired to coach {coaches}
v| manages {coaches} from the touchline as coach
s| {S} is also known as {alias}.
s| Some sources give {S's} name as {alias}.
v| was also called {alias}
v| sometimes signed letters as {alias}
s| {S's} other name was {alias}.
c| {S} [hobby].
c?dead| {S's} letters, [letters], were published [aftertime].
c?dead| A portrait of {S} [portrait].
c?dead| Contemporaries described {him} as [character].
c| {S} [travel].
c| {S's} childhood was marked by [childhood].
c| Critics have called {S} [critic].
c?dead| A street [streetplace] bears {S's} name.
c| {S} {speaks/spoke} [languages].
c?dead| [biography], a biography of {S}, [bioreception].
c| {S} {is} [manner] in private and [manner2] in public.
c| At home {he} {keeps/kept} [pets].
c| {S} lost most of {his} savings in [calamity] but recovered within [few] years.
c| Friends {speak of/recalled} {his} [trait] and {his} [trait2].
"""

ORDER = (
    "alias birth_date birth_place citizenship occupation father mother educated_at advisor instrument field "
    "employer party team books directed screenplays scored starred_in foundations designed engineered paintings "
    "recordings songs_written sings_in member_of climbed commanded students_of mayor_of governs leads_country "
    "chief_of chancellor_of edits leads_party coaches award award_year spouse marriage_year children death_date "
    "death_place"
)

LEXICON = {
    "fame": [
        "[whom] for [deeds]", "known chiefly for [deeds]", "[remembered] for [deeds]", "active in [circle]", "of {his} generation",
        "associated with the [movement] movement",
    ],
    "whom": ["known", "noted", "respected", "celebrated", "best known"],
    "remembered": ["remembered", "mentioned in textbooks", "cited in encyclopaedias"],
    "deeds": [
        "[adj] [work]", "[adj] and [adj2] [work]", "an unusually long career", "work in the provinces",
        "late [work]", "early [work]",
    ],
    "work": ["work", "teaching", "public service", "experiments", "collaborations", "ideas", "generosity"],
    "adj": ["careful", "daring", "patient", "original", "controversial", "disciplined", "understated", "tireless", "meticulous"],
    "adj2": ["often misunderstood", "widely imitated", "rarely equalled", "sometimes reckless", "plain", "solitary"],
    "circle": ["the provinces", "the reform clubs", "public life", "the learned societies", "the border towns", "exile for some years"],
    "movement": ["reform", "regionalist", "modernist", "revival", "temperance", "youth"],
    "family": ["farming", "merchant", "military", "mining", "fishing", "theatrical", "clerical", "railway", "weaving"],
    "deathcause": [
        "after a short illness", "following a fall", "of pneumonia", "of heart failure", "after a long illness",
        "in {his} sleep", "of a stroke",
    ],
    "studyage": ["seventeen", "eighteen", "nineteen", "twenty"],
    "position": ["striker", "goalkeeper", "midfielder", "full-back", "winger", "centre-half"],
    "few": ["two", "three", "four", "five", "six", "seven", "eight", "nine"],
    "smallbig": ["lasting", "minor but elegant", "important", "early", "several"],
    "partyfate": ["gained ground in the cities", "lost seats in the countryside", "changed its name twice", "doubled its membership"],
    "hobby": [
        "collected [collect]", "played chess by post", "kept bees", "walked long distances every [day]",
        "was a keen [sport]", "restored old clocks", "wrote occasional verse", "bred [animal]", "never learned to drive",
        "was fond of [food]", "had a lifelong interest in [interest]",
    ],
    "collect": ["beetles", "old maps", "porcelain", "stamps", "musical boxes", "walking sticks", "antique locks", "folk songs"],
    "day": ["Sunday", "morning", "autumn", "evening", "spring"],
    "sport": ["rower", "fencer", "skier", "gardener", "cyclist", "swimmer", "card player", "birdwatcher", "sailor"],
    "animal": ["pigeons", "sheepdogs", "canaries", "horses", "goats", "roses"],
    "food": ["smoked fish", "plum brandy", "strong coffee", "pickled walnuts", "rye bread", "liquorice"],
    "interest": ["beekeeping", "shipwrecks", "railway timetables", "dialects", "mushrooms", "astronomy", "bell ringing", "puppetry"],
    "letters": ["[lettercount] in all", "mostly to a~ [relative]", "full of [lettertone]", "long thought lost", "written in [hand]"],
    "lettercount": ["some forty", "more than two hundred", "about ninety", "sixty-one", "nearly three hundred"],
    "relative": ["cousin", "former teacher", "publisher", "childhood friend", "neighbour"],
    "lettertone": ["gossip", "complaints about the weather", "dry humour", "sketches", "advice on money"],
    "hand": ["a tiny hand", "green ink", "two languages", "pencil"],
    "aftertime": ["long afterwards", "in two volumes", "in a small edition", "by a local society", "without permission", "with notes by a nephew"],
    "portrait": [
        "hangs in the town hall", "appeared on a postage stamp", "was lost in a fire", "is kept in a private collection",
        "was painted from memory", "adorned a banknote for some years",
    ],
    "character": [
        "[trait3] and [trait4]", "a person of few words", "[trait3], though never unkind", "a brilliant talker",
        "someone who could not be hurried", "[trait4] to a fault",
    ],
    "trait3": ["reserved", "quick-tempered", "modest", "ambitious", "absent-minded", "cheerful", "stern", "witty"],
    "trait4": ["generous", "stubborn", "punctual", "curious", "proud", "frugal", "loyal", "restless"],
    "travel": [
        "travelled widely, often on foot", "disliked travelling and rarely left home", "spent one winter at sea",
        "crossed the [terrain] on a mule", "toured the provinces for [few] months", "once sailed round the [terrain2]",
    ],
    "terrain": ["highlands", "desert", "northern passes", "salt plains", "marshes"],
    "terrain2": ["southern islands", "cape", "coast", "great lakes"],
    "childhood": ["poverty", "frequent moves", "a long illness", "music", "the strictness of a grandmother", "a great flood", "books"],
    "critic": [
        "a minor master", "overrated", "ahead of {his} time", "the most [adj] figure of a quiet generation",
        "a craftsman rather than a genius", "an acquired taste",
    ],
    "streetplace": ["near the old harbour", "in the university quarter", "behind the market hall", "by the railway station", "in the new suburb"],
    "languages": ["four languages", "several dialects", "three languages fluently", "no foreign language", "five languages badly"],
    "biography": ["A Quiet Ambition", "The Long Apprenticeship", "Against the Grain", "A Life in Small Steps", "The Uneven Path", "Nothing by Halves"],
    "bioreception": ["appeared in two editions", "sold poorly", "was praised for its candour", "is out of print", "won over its reviewers", "caused a quarrel among heirs"],
    "manner": ["shy", "talkative", "melancholy", "playful", "untidy"],
    "manner2": ["formal", "commanding", "severe", "charming", "blunt"],
    "pets": ["a parrot", "two greyhounds", "a tortoise", "a small menagerie", "several cats", "an ageing donkey"],
    "calamity": ["a banking crisis", "a fire", "an ill-judged investment", "a shipwreck", "a lawsuit"],
    "trait": ["patience", "loud laugh", "love of argument", "elegant handwriting", "appetite", "prodigious memory"],
    "trait2": ["dislike of ceremony", "fear of horses", "habit of whistling", "taste for puns", "loyalty to old friends", "distrust of doctors"],
}  # fmt: skip
