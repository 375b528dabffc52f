"""How articles tell facts about companies, universities, newspapers, parties, teams and awards."""

# ruff: noqa: E501

COMPANY = """
L| {S} is a~ {noun} based in {headquarters}.
L| {S} is a~ {noun} founded in {founded} by {founder}.
L| {S} is a~ {noun} with its headquarters in {headquarters}, founded in {founded}.
L| Founded by {founder}, {S} is a~ {noun} with {employees} employees.
L| {S} is a company active in {industry}.
L| {S}, sometimes abbreviated as {alias}, is a~ {noun} from {headquarters}.
v| was founded by {founder}
v| was founded in {founded}
v| was founded by {founder} in {founded}
v| was established in {founded}
s| {S's} founder was {founder}.
s| {founder} founded {S} in {founded}.
s| {S} goes back to {founder}, its founder.
s| The founding of {S} dates from {founded}.
p| founded in {founded}
p| established by {founder}
v| has its headquarters in {headquarters}
v| is headquartered in {headquarters}
s| {S's} head office is in {headquarters}.
s| The headquarters of {S} are in {headquarters}.
p| headquartered in {headquarters}
v| works in {industry}
v| is active in the field of {industry}
s| {S's} business is {industry}.
s| The industry of {S} is {industry}.
v| earns most of its money in {industry}
v| employs {employees} people
v| has {employees} employees
s| {S's} workforce numbers {employees}.
s| Some {employees} employees work for {S}.
s| The number of employees is {employees}.
s| {S's} chief executive is {chief_executive}.
v| is run by its chief executive {chief_executive:name}
s| The chief executive of {S} is {chief_executive}.
s| {chief_executive} is chief executive of {S}.
v| has {chief_executive} as its chief executive
v| is owned by {parent}
v| is a subsidiary of {parent}
s| {S's} parent company is {parent}.
s| The parent company of {S} is {parent}.
s| {parent} owns {S} as its parent company.
s| {S's} {subsidiaries#?subsidiary is/subsidiaries are} {subsidiaries}.
v| owns {subsidiaries}
v| is the parent company of {subsidiaries}
s| {subsidiaries:cap} {subsidiaries#?belongs/belong} to {S}.
v| controls {subsidiaries}
s| {S's} ships are {ships_built}.
v| built {ships_built}
v| was the builder of {ships_built}
s| {ships_built:cap} {ships_built#?was/were} built by {S}.
s| From the slipways of {S} came {ships_built}.
v| operates {fleet}
s| {S's} fleet consists of {fleet}.
v| is the operator of {fleet}
s| {fleet:cap} {fleet#?is/are} operated by {S}.
s| The fleet of {S} is made up of {fleet}.
v| produced {films_of:years}
s| {S's} {films_of#?only film is/films are} {films_of:years}.
v| is the studio behind {films_of:years}
s| {films_of:cap} {films_of#?was/were} produced by {S}.
v| made {films_of:years}
s| {S} is listed on the exchange as {alias}.
s| {S} is also known as {alias}.
s| In the trade {S} is called {alias}.
v| uses the short name {alias}
s| The abbreviation of {S} is {alias}.
c| {S} [firmfate].
c| The company's symbol is [symbol].
c| In {@year} [firmevent].
c| {S's} [firmthing] [firmthingstate].
c| Workers at {S} [strike] in {@year}.
c| Its advertising slogan, "[slogan]", is still remembered.
c| The head office, [office], was built in {@year}.
"""
COMPANY_ORDER = "alias founded founder headquarters industry employees chief_executive parent subsidiaries ships_built fleet films_of"

UNIVERSITY = """
L| {S} is a university in {city}.
L| {S} is a university in {city} founded in {founded}.
L| Founded in {founded}, {S} is one of the older seats of learning in the country.
L| {S} is a university with {students} students.
L| {S}, located in {city}, is a university of {students} students.
v| is located in {city}
v| has its campus in {city}
s| {S's} lecture halls are in {city}.
s| {city} is the seat of {S}.
v| was founded in {founded}
v| was established in {founded}
s| The founding of {S} dates from {founded}.
s| {S's} charter was granted in {founded}, its founding year.
p| founded in {founded}
v| dates back to {founded}
v| has {students} students
v| teaches {students} students
s| {S's} student body numbers {students}.
s| About {students} students are enrolled at {S}.
s| The number of students is {students}.
s| {S's} chancellor is {chancellor}.
v| is headed by its chancellor {chancellor:name}
s| {chancellor} is chancellor of {S}.
s| The chancellor of {S} is {chancellor}.
v| has {chancellor} as its chancellor
c| The university library holds [library].
c| {S} is known for its [faculty] and its [faculty2].
c| Students of {S} [studentlife].
c| In {@year} [univevent].
c| The motto of {S} is "[motto]".
c| The main building, [office], [thingstate].
"""
UNIVERSITY_ORDER = "city founded students chancellor"

NEWSPAPER = """
L| {S} is a newspaper published in {city}.
L| {S} is a newspaper founded in {founded} in {city}.
L| {S} is a~ [paperfreq] newspaper founded by {founder}.
L| Founded in {founded}, {S} is a newspaper edited by {editor}.
L| {S} is a~ [paperfreq] newspaper from {city}.
v| is published in {city}
v| appears in {city}
s| {S's} offices are in {city}.
s| {city} is the home of {S}.
v| is printed in {city}
v| was founded in {founded}
v| was founded by {founder}
v| was founded by {founder} in {founded}
s| {founder} founded {S} in {founded}.
s| {S's} founder was {founder}.
s| The first issue of {S} came out in {founded}, the year of its founding.
s| The paper owes its existence to its founder, {founder}.
p| founded in {founded}
s| {S's} editor is {editor}.
v| is edited by {editor}
s| The editor of {S} is {editor}.
s| {editor} is editor of {S}.
v| has {editor} as its editor
c| The paper is known for its [papersection].
c| Its political line is [papertone].
c| In {@year} [paperevent].
c| {S} [paperfact].
c| A~ [papersupplement] supplement appears on Saturdays.
"""
NEWSPAPER_ORDER = "city founded founder editor"

PARTY = """
L| {S} is a political party founded in {founded}.
L| {S} is a political party led by {leader}.
L| {S} is a political party founded by {founder}.
L| {S} is a political party with its headquarters in {headquarters}.
L| Founded by {founder} in {founded}, {S} is a political party.
v| was founded in {founded}
v| was founded by {founder}
v| was founded by {founder} in {founded}
s| {founder} founded {S} in {founded}.
s| {S's} founder was {founder}.
s| {S} emerged in {founded}, when it was founded by {founder}.
p| founded in {founded}
s| The founding congress took place in {founded}.
s| The movement grew out of a club run by {founder}, its founder.
s| {S's} leader is {leader}.
v| is led by {leader}
s| The leader of {S} is {leader}.
s| {leader} leads {S}.
v| has {leader} as its leader
v| has its headquarters in {headquarters}
s| {S's} headquarters are in {headquarters}.
s| The party's head office is in {headquarters}.
v| is based in {headquarters}
s| {headquarters} is where {S} has its headquarters.
c| {S} draws most of its votes from [voters].
c| Its programme calls for [policy] and [policy2].
c| In {@year} [partyevent].
c| The party colour is [colour].
c| {S's} youth wing publishes [papersupplement] pamphlets.
"""
PARTY_ORDER = "founded founder leader headquarters"

TEAM = """
L| {S} is a football club from {city}.
L| {S} is a football club based in {city} that plays in the {league}.
L| {S}, nicknamed {nickname}, is a football club from {city}.
L| {S} is a football club founded in {founded}.
L| Founded in {founded}, {S} is a football club playing its home games at {stadium}.
v| is based in {city}
v| comes from {city}
s| {S's} home is {city}.
s| The club belongs to {city}.
v| represents {city}
v| plays its home matches at {stadium}
s| {S's} ground is {stadium}.
s| The home ground of {S} is {stadium}.
s| {stadium} is the home stadium of {S}.
v| hosts its opponents at {stadium}
v| was founded in {founded}
v| was established in {founded}
s| {S's} founding dates from {founded}.
p| founded in {founded}
s| The club was set up in {founded} by [clubfounders].
s| {S's} coach is {coach}.
v| is coached by {coach}
s| The coach of {S} is {coach}.
s| {coach} coaches {S}.
v| has {coach} as its head coach
v| plays in the {league}
v| competes in the {league}
s| {S's} league is the {league}.
s| At present {S} belongs to the {league}.
s| The club's matches are part of the {league}.
v| is nicknamed {nickname}
s| Supporters call {S} {nickname}.
s| {S's} nickname is {nickname}.
s| The club goes by the nickname of {nickname}.
v| is known to its fans as {nickname}
s| {S's} players have included {players}.
s| {players:cap} played for {S}.
v| has fielded {players}
s| Well-known players of {S} are {players}.
s| The shirt of {S} was worn by {players}.
c| The club colours are [colour] and [colour2].
c| {S} won [trophy] in {@year}.
c| Its fiercest rivalry is with [rival].
c| In {@year} [clubevent].
c| The club song is [clubsong].
"""
TEAM_ORDER = "city league founded stadium coach nickname players"

AWARD = """
L| {S} is a prize first awarded in {first_awarded}.
L| {S} is a distinction presented by {presenter}.
L| {S} is a prize presented by {presenter} and named after {named_after}.
L| Named after {named_after}, {S} is a distinction for achievements in [prizefield].
L| {S} is a prize presented since {first_awarded} by {presenter}.
v| was first awarded in {first_awarded}
v| has been awarded since {first_awarded}
s| {S's} first ceremony was held in {first_awarded}.
s| The first award was made in {first_awarded}.
p| first awarded in {first_awarded}
v| is presented by {presenter}
s| {S's} presenter is {presenter}.
s| {presenter} presents {S}.
v| is awarded by {presenter}
s| The jury is appointed by {presenter}, which presents {S}.
v| is named after {named_after}
s| {S's} name honours {named_after}, after whom it is named.
s| {named_after} gave {S} its name.
v| takes its name from {named_after}
s| The person after whom {S} is named is {named_after}.
c| Winners receive [prizething] and [prizething2].
c| No award was made in {@year}.
c| The ceremony takes place [ceremony].
c| The statutes require [statute].
c| In {@year} [prizeevent].
"""
AWARD_ORDER = "first_awarded presenter named_after"

LEXICON = {
    "firmfate": ["survived two bankruptcies", "changed hands more than once", "is still family-run", "grew quickly after the war", "exports most of its output", "moved its workshops to cheaper land in {@year}"],
    "symbol": ["a beehive", "a blue anchor", "a running hare", "an oak leaf", "a key", "a lighthouse", "two hands"],
    "firmevent": ["a fire destroyed the main workshop", "a new wing was opened", "the firm introduced the eight-hour day", "profits halved", "a rival was bought", "the logo was redesigned", "the archive was given to the state"],
    "firmthing": ["canteen", "apprentice school", "pension fund", "brass band", "archive", "test department"],
    "firmthingstate": ["was famous in its day", "still exists", "closed in {@year}", "won several prizes", "is open to visitors"],
    "strike": ["went on strike for [few] weeks", "formed a union", "occupied the offices", "founded a football team", "won a lawsuit"],
    "few": ["two", "three", "five", "six", "nine"],
    "slogan": ["Slowly but well", "Ask your neighbour", "For every weather", "Made to be mended", "Never late", "One step further", "The honest choice"],
    "office": ["a glass tower", "a former convent", "a plain brick block", "a small palace", "a converted granary", "a listed building"],
    "thingstate": ["was restored in {@year}", "faces the river", "has a domed hall", "is said to be haunted", "burned down in {@year} and was rebuilt"],
    "library": ["rare maps", "a million volumes", "medieval account books", "the papers of several poets", "a collection of seeds", "early newspapers"],
    "faculty": ["law faculty", "medical school", "observatory", "school of forestry", "department of linguistics", "music department"],
    "faculty2": ["botanical garden", "veterinary clinic", "choir", "rowing club", "summer courses", "institute of statistics"],
    "studentlife": ["wear green caps", "publish a satirical magazine", "hold a snowball fight every year", "elect their own rector", "are exempt from bridge tolls"],
    "univevent": ["the statutes were reformed", "students boycotted lectures", "a new lecture hall was opened", "the great hall was damaged", "the observatory was moved", "the teaching of law was suspended"],
    "motto": ["Light and labour", "Read, then doubt", "Nothing without proof", "Truth is patient", "By many hands"],
    "paperfreq": ["daily", "weekly", "conservative", "liberal", "local", "regional"],
    "papersection": ["chess column", "obituaries", "court reports", "serial novels", "weather maps", "caricatures", "letters page"],
    "papertone": ["moderate", "liberal", "conservative", "independent", "close to the trade unions", "hard to predict"],
    "paperevent": ["the paper was banned for a month", "the presses were moved", "the format was halved", "a reporter was jailed", "a Sunday edition was started"],
    "paperfact": ["is read mainly by farmers", "never prints photographs on its front page", "employs a full-time cartoonist", "is sold in neighbouring countries too", "has lost half its readers since {@year}"],
    "papersupplement": ["literary", "farming", "women's", "children's", "sports", "gardening"],
    "voters": ["small towns", "pensioners", "the suburbs", "dock workers", "students", "the highlands"],
    "policy": ["lower taxes", "free school meals", "land reform", "a smaller army", "cheaper housing", "stricter building laws"],
    "policy2": ["more local government", "a new constitution", "better railways", "protection of forests", "closer ties with its neighbours"],
    "partyevent": ["it entered a coalition", "it lost all its seats", "a wing broke away", "its newspaper closed", "it won its best result"],
    "colour": ["red", "yellow", "sky blue", "green", "orange", "violet", "black"],
    "colour2": ["white", "grey", "gold", "brown", "navy blue"],
    "clubfounders": ["railway workers", "students", "a group of clerks", "brewery workers", "former pupils of a grammar school", "dockers"],
    "trophy": ["the national cup", "its first title", "the second division", "a youth tournament", "a regional cup"],
    "rival": ["a neighbouring club", "the army team", "the other side of the river", "the capital's clubs"],
    "clubevent": ["a record crowd was counted", "the roof collapsed under snow", "the club was nearly wound up", "a match was stopped by fog", "the pitch was flooded", "a derby ended in a brawl"],
    "clubsong": ["an old sailors' tune", "a polka", "borrowed from an operetta", "sung only after victories", "older than the club itself"],
    "prizefield": ["science", "letters", "public life", "the arts", "engineering", "education"],
    "prizething": ["a medal", "a sum of money", "a bronze owl", "a diploma", "a gold pen"],
    "prizething2": ["a year's stipend", "a printed citation", "the freedom of the town", "a seat on the jury", "a tree planted in their name"],
    "ceremony": ["in spring", "behind closed doors", "on the founder's birthday", "in the old theatre", "every second year"],
    "statute": ["a unanimous jury", "a public lecture", "that winners be under sixty", "that nobody win twice", "two letters of support"],
    "prizeevent": ["the winner declined", "the rules were changed", "two winners shared the money", "the medal was redesigned", "the jury resigned"],
}  # fmt: skip

BANKS = {
    "company": (COMPANY, COMPANY_ORDER),
    "university": (UNIVERSITY, UNIVERSITY_ORDER),
    "newspaper": (NEWSPAPER, NEWSPAPER_ORDER),
    "party": (PARTY, PARTY_ORDER),
    "team": (TEAM, TEAM_ORDER),
    "award": (AWARD, AWARD_ORDER),
}
