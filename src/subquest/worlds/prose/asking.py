"""How questions ask for a relation, and how they name the thing at its end.

Each line is `relation | questions | noun phrases`, alternatives separated by `;`. `{x}` is the subject, `{x's}` its
possessive, `{n}` the common noun of the value ("town", "novel"), `{is}` follows whether the subject is still alive,
`{wife}` is the spouse's word. A relation of one kind only is written `kind.relation`. The last alternative without a
genitive is the one held out for test phrasings.
"""

# ruff: noqa: E501

from __future__ import annotations

import functools
from typing import NamedTuple

TABLE = """
birth_date | When was {x} born? ; On what date was {x} born? ; What is the birth date of {x}? ; What is {x's} date of birth?
death_date | What is the date of death of {x}? ; When did {x} die? ; On what date did {x} die? ; On which day did {x} pass away? ; What is {x's} date of death?
birth_place | Where was {x} born? ; In which {n} was {x} born? ; What is the birthplace of {x}? ; What is {x's} place of birth? | the {n} where {x} was born ; the birthplace of {x} ; {x's} birthplace ; the {n} in which {x} was born
death_place | What is the place of death of {x}? ; Where did {x} die? ; In which {n} did {x} die? ; What is {x's} place of death? ; In what place did {x's} life end? | the place of death of {x} ; the {n} where {x} died ; the place of {x's} death ; the {n} in which {x} died
citizenship | What is the country of citizenship of {x}? ; Of which country {is} {x} a citizen? ; What {is} {x's} country of citizenship? ; Which country {is} {x} a citizen of? | the country of citizenship of {x} ; the country of which {x} {is} a citizen ; {x's} country of citizenship ; the country {x} {is} a citizen of
occupation | What {is} {x's} occupation? ; What {is} the profession of {x}? ; What line of work {is} {x} known for?
father | Who {is} {x's} father? ; Who {is} the father of {x}? ; What is the name of {x's} father? | {x's} father ; the father of {x} ; the male parent of {x}
mother | Who {is} {x's} mother? ; Who {is} the mother of {x}? ; What is the name of {x's} mother? | {x's} mother ; the mother of {x} ; the female parent of {x}
spouse | Who {is} {x's} {wife}? ; Who {is} the spouse of {x}? ; Whom did {x} marry? ; To whom {is} {x} married? | {x's} {wife} ; the {wife} of {x} ; the person whom {x} married
marriage_year | What is the year of the wedding of {x}? ; In what year did {x} marry? ; When did {x} get married? ; In which year was {x's} wedding?
educated_at | What is the alma mater of {x}? ; Which university did {x} attend? ; Where did {x} study? ; At which university was {x} educated? ; What is {x's} alma mater? | the alma mater of {x} ; the university that {x} attended ; the university where {x} studied ; {x's} alma mater
employer | Who {is} {x's} employer? ; Which {n} employed {x}? ; For which {n} did {x} work? | the {n} that employed {x} ; {x's} employer ; the {n} for which {x} worked
award | What is the name of the award received by {x}? ; Which award did {x} receive? ; What prize did {x} win? ; With which award was {x} honoured? | the award that {x} received ; the prize that {x} won ; the award given to {x}
team | What is the football club of {x}? ; Which football club did {x} play for? ; For which football club did {x} play? ; What was {x's} football club? | the football club of {x} ; the football club that {x} played for ; {x's} football club ; the club whose shirt {x} wore
advisor | Who was {x's} doctoral advisor? ; Who was the doctoral advisor of {x}? ; Who supervised the doctorate of {x}? | {x's} doctoral advisor ; the doctoral advisor of {x} ; the person who supervised {x's} doctorate
party | What is the political party of {x}? ; Which political party {is} {x} a member of? ; To which political party {is} {x} affiliated? ; What {is} {x's} political party? | {x's} political party ; the political party of {x} ; the party to which {x} belongs
instrument | Which instrument did {x} play? ; What instrument is associated with {x}? ; What {is} {x's} main instrument?
field | What is the field of research of {x}? ; What {is} {x's} field of research? ; In which field did {x} specialise? ; What subject did {x} do research on?
capital | What is the capital of {x}? ; Which city is the capital of {x}? ; What is {x's} capital? | the capital of {x} ; {x's} capital ; the capital city of {x}
currency | What is the currency of {x}? ; Which currency is used in {x}? ; What is {x's} currency?
language | What is the official language of {x}? ; Which language is official in {x}? ; What is {x's} official language?
head_of_state | Who is the head of state of {x}? ; Who is {x's} head of state? ; Who serves as head of state of {x}? | the head of state of {x} ; {x's} head of state ; the person who leads {x} as head of state
independence | In which year came the independence of {x}? ; In what year did {x} become independent? ; When did {x} gain independence? ; In which year was {x's} independence declared?
highest_point | What is the highest mountain in {x}? ; What is the highest point of {x}? ; Which mountain is the highest in {x}? | the highest mountain in {x} ; the highest point of {x} ; {x's} highest mountain
longest_river | What is the longest river in {x}? ; Which river is the longest in {x}? ; What is {x's} longest river? | the longest river in {x} ; {x's} longest river ; the longest river of {x}
country.area | What is the area of {x}? ; How large is {x} in square kilometres? ; What area does {x} cover?
area | What is the area of {x}? ; How large is {x} in square kilometres? ; What area does {x} cover?
population | What is the population of {x}? ; How many people live in {x}? ; How many inhabitants does {x} have?
country | In which country is {x}? ; Which country is {x} part of? ; To which country does {x} belong? | the country containing {x} ; the country in which {x} lies ; the country that {x} is part of ; the country to which {x} belongs
film.country | From which country is {x}? ; What is the country of origin of {x}? ; In which country was {x} made? | the country of origin of {x} ; the country where {x} was made ; the country that produced {x}
seat | What is the administrative seat of {x}? ; Which {n} is the seat of {x}? ; From which {n} is {x} administered? | the seat of {x} ; the administrative seat of {x} ; the {n} from which {x} is administered
governor | Who is the governor of {x}? ; Who governs {x}? ; Who is {x's} governor? | the governor of {x} ; {x's} governor ; the person who governs {x}
province | What is the name of the {n} containing {x}? ; In which {n} is {x} located? ; Which {n} is {x} part of? ; To which {n} does {x} belong? | the {n} in which {x} is located ; the {n} that {x} belongs to ; the {n} containing {x}
founded | In what year was {x} founded? ; When was {x} founded? ; What is the founding year of {x}?
river | Which river flows through {x}? ; On which river does {x} stand? ; What river runs through {x}? | the river that flows through {x} ; the river on which {x} stands ; the river running through {x}
bridge.river | Which river does {x} cross? ; What river is spanned by {x}? ; Over which river does {x} lead? | the river that {x} crosses ; the river spanned by {x} ; the river beneath {x}
mayor | Who is the mayor of {x}? ; Who is {x's} mayor? ; Who serves as mayor of {x}? | the mayor of {x} ; {x's} mayor ; the person who serves as mayor of {x}
twin_town | What is the twin town of {x}? ; Which place is {x} twinned with? ; With which place is {x} twinned? | the twin town of {x} ; {x's} twin town ; the place that {x} is twinned with
elevation | What is the elevation of {x}? ; How high above sea level is {x}? ; At what elevation does {x} lie?
length | How long is {x}? ; What is the length of {x}? ; What length does {x} have?
source | On which mountain does {x} rise? ; Where is the source of {x}? ; From which mountain does {x} spring? | the mountain on which {x} rises ; the source of {x} ; the mountain where {x} has its source
mouth | Into which body of water does {x} flow? ; What lies at the mouth of {x}? ; What does {x} flow into? | the {n} into which {x} flows ; the {n} that {x} flows into ; the {n} at the mouth of {x}
depth | How deep is {x}? ; What is the maximum depth of {x}? ; What depth does {x} reach?
height | How high is {x}? ; What is the height of {x}? ; What height does {x} reach?
first_ascent | In what year was {x} first climbed? ; When was the first ascent of {x}? ; In which year was the summit of {x} first reached?
first_climber | Who first climbed {x}? ; Who made the first ascent of {x}? ; Who was the first person on the summit of {x}? | the first person to climb {x} ; the climber who made the first ascent of {x} ; the first climber of {x}
city | What is the location of {x}? ; In which {n} is {x} located? ; Where is {x} located? ; What {n} is {x} in? | the {n} in which {x} is located ; the {n} where {x} is found ; the {n} that is home to {x}
team.city | Which {n} is {x} from? ; In which {n} is {x} based? ; What is the home {n} of {x}? | the home {n} of {x} ; the {n} that {x} is from ; the {n} in which {x} is based
newspaper.city | What is the place of publication of {x}? ; In which {n} is {x} published? ; Where is {x} published? ; From which {n} does {x} come? | the place of publication of {x} ; the {n} where {x} is published ; the {n} in which {x} appears ; the {n} that {x} comes from
chancellor | Who is the chancellor of {x}? ; Who is {x's} chancellor? ; Who serves as chancellor of {x}? | the chancellor of {x} ; {x's} chancellor ; the person who heads {x} as chancellor
students | How many students does {x} have? ; What is the number of students at {x}? ; How many students are enrolled at {x}?
founder | Who founded {x}? ; Who was the founder of {x}? ; By whom was {x} founded? | the founder of {x} ; the person who founded {x} ; {x's} founder
headquarters | Where are the headquarters of {x}? ; In which {n} does {x} have its headquarters? ; Where is {x} headquartered? | the {n} where {x} has its headquarters ; the {n} in which {x} is headquartered ; the headquarters town of {x}
industry | In which industry is {x} active? ; What is the industry of {x}? ; What business is {x} in?
chief_executive | Who is the chief executive of {x}? ; Who is {x's} chief executive? ; Who runs {x} as chief executive? | the chief executive of {x} ; {x's} chief executive ; the person who runs {x} as chief executive
parent | What is the parent company of {x}? ; Which company owns {x}? ; To which parent company does {x} belong? | the parent company of {x} ; the company that owns {x} ; {x's} parent company
employees | How many employees does {x} have? ; How many people work for {x}? ; What is the number of employees of {x}?
director | Who directed {x}? ; Who was the director of {x}? ; By whom was {x} directed? | the director of {x} ; the person who directed {x} ; {x's} director
screenwriter | Who wrote the screenplay of {x}? ; Who was the screenwriter of {x}? ; Who wrote the script for {x}? | the screenwriter of {x} ; the person who wrote the screenplay of {x} ; {x's} screenwriter
composer | Who composed the music for {x}? ; Who was the composer of the music for {x}? ; Whose music accompanies {x}? | the composer of the music for {x} ; the person who composed the music for {x} ; {x's} composer
release_date | When was {x} released? ; What is the release date of {x}? ; On what date did {x} come out?
running_time | What is the running time of {x}? ; How many minutes long is {x}? ; How long does {x} run?
studio | Which company produced {x}? ; What studio made {x}? ; By which film studio was {x} produced? | the film studio that produced {x} ; the company that made {x} ; the production company of {x}
based_on | Which book is {x} based on? ; What book was adapted as {x}? ; On which {n} is {x} based? | the {n} that {x} is based on ; the {n} adapted as {x} ; the {n} on which {x} is based
set_in | Where is {x} set? ; In which {n} is {x} set? ; What is the setting of {x}? | the {n} where {x} is set ; the setting of {x} ; the {n} in which {x} takes place
author | Who wrote {x}? ; Who is the author of {x}? ; By whom was {x} written? | the author of {x} ; the person who wrote {x} ; {x's} author
publisher | Who published {x}? ; What is the publisher of {x}? ; Which publishing house brought out {x}? | the publisher of {x} ; the publishing house that published {x} ; {x's} publisher
published | In what year was {x} published? ; When was {x} published? ; What is the year of publication of {x}?
pages | How many pages does {x} have? ; What is the number of pages of {x}? ; How many pages long is {x}?
genre | What is the genre of {x}? ; To which genre does {x} belong? ; What genre is {x}?
sequel | What is the sequel to {x}? ; Which novel is the sequel to {x}? ; What novel follows {x}? | the sequel to {x} ; {x's} sequel ; the novel that follows {x}
performer | Who recorded {x}? ; Who is the performer of {x}? ; By whom was {x} performed? | the performer of {x} ; the performer who recorded {x} ; {x's} performer
song_performer | Who recorded {x}? ; Who performed {x}? ; By whom was {x} performed? | the performer of {x} ; the performer who recorded {x} ; {x's} performer
label | Which record label released {x}? ; What is the record label of {x}? ; On which label did {x} come out? | the record label of {x} ; the label that released {x} ; {x's} record label
band.label | Which record label is {x} signed to? ; What is the record label of {x}? ; With which label did {x} sign? | the record label of {x} ; the label that {x} is signed to ; {x's} record label
tracks | How many tracks does {x} have? ; What is the number of tracks on {x}? ; How many tracks are on {x}?
songwriter | Who wrote {x}? ; Who is the songwriter of {x}? ; By whom was {x} written? | the songwriter of {x} ; the person who wrote {x} ; {x's} songwriter
album | Which album is {x} from? ; On which album does {x} appear? ; What album contains {x}? | the album that {x} is from ; the album containing {x} ; the album on which {x} appears
song_year | In what year was {x} released? ; When was {x} released? ; What is the release year of {x}?
formed | In what year was {x} formed? ; When was {x} formed? ; What is the year of formation of {x}?
formed_in | What is the place of origin of {x}? ; Where was {x} formed? ; In which {n} was {x} formed? ; In what place did {x} come together? | the place of origin of {x} ; the {n} where {x} was formed ; the {n} in which {x} came together ; the {n} that {x} comes from
singer | Who is the lead singer of {x}? ; Who sings lead in {x}? ; Who is the lead vocalist of {x}? | the lead singer of {x} ; {x's} lead singer ; the lead vocalist of {x}
stadium | What is the home stadium of {x}? ; Where does {x} play its home matches? ; Which stadium is home to {x}? | the home stadium of {x} ; the stadium where {x} plays ; {x's} home ground
coach | Who is the coach of {x}? ; Who coaches {x}? ; Who is {x's} head coach? | the coach of {x} ; {x's} coach ; the person who coaches {x}
league | What is the league of {x}? ; In which league does {x} play? ; What league is {x} in? ; To which league does {x} belong?
capacity | What is the capacity of {x}? ; How many spectators does {x} hold? ; How many people fit into {x}?
opened | In what year was {x} opened? ; When did {x} open? ; What is the opening year of {x}?
architect | Who designed {x}? ; Who was the architect of {x}? ; By which architect was {x} designed? | the architect of {x} ; the architect who designed {x} ; {x's} architect
engineer | Who was the engineer of {x}? ; Who engineered {x}? ; Which engineer was in charge of {x}? | the engineer of {x} ; the person who engineered {x} ; {x's} engineer
builder | Which company built {x}? ; Who was the builder of {x}? ; At which shipyard was {x} built? | the shipyard that built {x} ; the builder of {x} ; {x's} builder
operator | Which company operates {x}? ; Who is the operator of {x}? ; For which shipping company does {x} sail? | the shipping company that operates {x} ; the operator of {x} ; {x's} operator
launched | In what year was {x} launched? ; When was {x} launched? ; What is the launch year of {x}?
home_port | What is the home port of {x}? ; Which {n} is the home port of {x}? ; In which {n} is {x} registered? | the home port of {x} ; {x's} home port ; the {n} that is home port to {x}
named_after | Who is the namesake of {x}? ; After whom is {x} named? ; Who is {x} named after? ; Whose name does {x} bear? | the person after whom {x} is named ; the person {x} is named after ; the namesake of {x}
signed_at | Where was {x} signed? ; In which {n} was {x} signed? ; What was the place of signing of {x}? | the place of signing of {x} ; the {n} where {x} was signed ; the place where {x} was signed ; the {n} in which {x} was concluded
signed_on | When was {x} signed? ; On what date was {x} signed? ; What is the date of signing of {x}?
ended_war | Which war did {x} end? ; What war was ended by {x}? ; To which war did {x} put an end? | the war that {x} ended ; the war ended by {x} ; the war concluded by {x}
war_start | In what year did {x} begin? ; When did {x} break out? ; What was the first year of {x}?
war_end | In what year did {x} end? ; When did {x} end? ; What was the last year of {x}?
opponent | Which country did {region} fight in {x}? ; Who was the opponent of {region} in {x}? ; Against which country was {region} at war in {x}? | the opponent of {region} in {x} ; the country that {region} fought in {x} ; {region's} opponent in {x}
war | Which war included {x}? ; Which war was {x} part of? ; In which war was {x} fought? ; To which war does {x} belong? | the war that included {x} ; the war in which {x} was fought ; the war that {x} was part of ; the war to which {x} belongs
battle_place | Where was {x} fought? ; At which {n} did {x} take place? ; What was the place of {x}?
battle_date | When was {x} fought? ; On what date did {x} take place? ; What is the date of {x}?
commander | Who was the victorious commander at {x}? ; Which commander won {x}? ; Who commanded the winning side at {x}? | the commander who won {x} ; the victorious commander at {x} ; the winning commander of {x}
first_awarded | In what year was {x} first awarded? ; When was {x} first awarded? ; What was the first year of {x}?
presenter | Who presents {x}? ; Which institution awards {x}? ; By whom is {x} presented? | the {n} that presents {x} ; the presenter of {x} ; the {n} that awards {x}
editor | Who is the editor of {x}? ; Who edits {x}? ; Who is {x's} editor? | the editor of {x} ; {x's} editor ; the person who edits {x}
leader | Who is the leader of {x}? ; Who leads {x}? ; Who is {x's} leader? | the leader of {x} ; {x's} leader ; the person who leads {x}
painter | Who painted {x}? ; Who is the painter of {x}? ; By whom was {x} painted? | the painter of {x} ; the artist who painted {x} ; {x's} painter
painted | In what year was {x} painted? ; When was {x} painted? ; What is the date of {x}?
museum | In which museum is {x} kept? ; Which museum owns {x}? ; Where does {x} hang? | the museum where {x} is kept ; the museum that owns {x} ; the museum in which {x} hangs
depicts | What does {x} depict? ; Who or what is shown in {x}? ; What is the subject of {x}? | the {n} depicted in {x} ; the {n} shown in {x} ; the subject of {x}
directed | Which film did {x} direct? ; What film was directed by {x}? ; Of which film was {x} the director? | the film that {x} directed ; the film directed by {x} ; {x's} film
scored | For which film did {x} compose the music? ; Which film has music composed by {x}? ; Which film did {x} score? | the film for which {x} composed the music ; the film with music by {x} ; the film that {x} scored
screenplays | For which film did {x} write the screenplay? ; Which film was written by {x}? ; Which film did {x} script? | the film whose screenplay was written by {x} ; the film that {x} scripted ; the film written by {x}
books | Which {n} did {x} write? ; What {n} is by {x}? ; Of which {n} is {x} the author? | the {n} that {x} wrote ; the {n} written by {x} ; the {n} by {x}
foundations | Which {n} did {x} found? ; What {n} was founded by {x}? ; Of which {n} was {x} the founder? | the {n} that {x} founded ; the {n} founded by {x} ; the {n} established by {x}
designed | Which {n} did {x} design? ; What {n} was designed by {x}? ; Of which {n} was {x} the architect? | the {n} that {x} designed ; the {n} designed by {x} ; the {n} built to the plans of {x}
engineered | Which bridge did {x} engineer? ; Of which bridge was {x} the engineer? ; What bridge was engineered by {x}? | the bridge that {x} engineered ; the bridge engineered by {x} ; {x's} bridge
paintings | Which painting is by {x}? ; What did {x} paint? ; Of which painting is {x} the painter? | the painting by {x} ; the painting that {x} painted ; {x's} painting
recordings | Which album did {x} record? ; What album is by {x}? ; What album was released by {x}? | the album recorded by {x} ; the album by {x} ; {x's} album
songs_written | Which song did {x} write? ; What song was written by {x}? ; Of which song is {x} the songwriter? | the song that {x} wrote ; the song written by {x} ; {x's} song
sings_in | Which band is fronted by {x}? ; Which band has {x} as its lead singer? ; Of which band {is} {x} the lead singer? ; Which band does {x} front? | the band whose lead singer is {x} ; the band fronted by {x} ; {x's} band
climbed | Which mountain was first climbed by {x}? ; Which mountain did {x} climb first? ; Of which mountain did {x} make the first ascent? | the mountain first climbed by {x} ; the mountain of which {x} made the first ascent ; {x's} mountain
commanded | Which battle did {x} win as commander? ; At which battle was {x} the victorious commander? ; Which battle was won by {x}? | the battle that {x} won as commander ; the battle won by {x} ; {x's} battle
mayor_of | Which {n} has a mayor by the name of {x}? ; Of which {n} is {x} the mayor? ; Where is {x} mayor? ; Which {n} has {x} as its mayor? | the {n} of which {x} is mayor ; the {n} whose mayor is {x} ; the {n} led by {x} as mayor
governs | Which {n} is governed by {x}? ; Which {n} does {x} govern? ; Of which {n} is {x} the governor? ; Which {n} has {x} as its governor? | the {n} that {x} governs ; the {n} whose governor is {x} ; the {n} governed by {x}
chief_of | Which company is run by {x}? ; Of which company is {x} the chief executive? ; Which company does {x} run as chief executive? ; Which company has {x} as its chief executive? | the company of which {x} is chief executive ; the company whose chief executive is {x} ; the company run by {x}
chancellor_of | Which university is headed by {x}? ; Of which university is {x} the chancellor? ; Which university does {x} head as chancellor? ; Which university has {x} as its chancellor? | the university of which {x} is chancellor ; the university whose chancellor is {x} ; the university headed by {x}
edits | Which newspaper is edited by {x}? ; Which newspaper does {x} edit? ; Of which newspaper is {x} the editor? ; Which newspaper has {x} as its editor? | the newspaper that {x} edits ; the newspaper edited by {x} ; {x's} newspaper
leads_party | Which political party is led by {x}? ; Which political party does {x} lead? ; Of which party is {x} the leader? ; Which party has {x} as its leader? | the political party that {x} leads ; the party led by {x} ; {x's} party
coaches | Which football club is coached by {x}? ; Which football club does {x} coach? ; Of which football club is {x} the coach? ; Which club has {x} as its coach? | the football club that {x} coaches ; the football club coached by {x} ; {x's} club
ended_by | Which treaty ended {x}? ; By which treaty was {x} ended? ; What treaty put an end to {x}? | the treaty that ended {x} ; the treaty by which {x} was ended ; the treaty concluding {x}
adaptation | Which film is based on {x}? ; As which film was {x} adapted? ; What film was made from {x}? | the film based on {x} ; the film adaptation of {x} ; the film made from {x}
children | Who is the only child of {x}? ; Who is {x's} only child? ; Who is the one child that {x} had? | the only child of {x} ; {x's} only child ; the one child of {x}
"""

LISTS = """
directed | films did {x} direct | {x's} films as director | film
starred_in | films did {x} star in | {x's} films as an actor | film
scored | films did {x} compose the music for | {x's} film scores | film
books | books did {x} write | {x's} books | book
children | children did {x} have | {x's} children | child
recordings | albums did {x} record | {x's} albums | album
paintings | paintings did {x} paint | {x's} paintings | painting
fleet | ships does {x} operate | {x's} ships | ship
ships_built | ships did {x} build | {x's} ships | ship
players | players are named for {x} | the players of {x} | player
films_of | films did {x} produce | {x's} films | film
tributaries | tributaries does {x} have | the tributaries of {x} | river
battles | battles were fought in {x} | the battles of {x} | battle
"""
"""inverse | rest of "How many ..." and "Which ..." | the whole list | one item"""

EVENTS = {
    "birth_date": "the birth of {x}", "death_date": "the death of {x}", "release_date": "the release of {x}",
    "published": "the publication of {x}", "founded": "the founding of {x}", "launched": "the launch of {x}",
    "signed_on": "the signing of {x}", "battle_date": "{x}", "opened": "the opening of {x}",
    "painted": "the completion of {x}", "formed": "the formation of {x}", "first_ascent": "the first ascent of {x}",
    "first_awarded": "the first award of {x}",
}  # fmt: skip
"""Relations that date an event, and the event's noun phrase."""

COMPARED: dict[str, tuple[tuple[str, str], tuple[str, str], str]] = {
    # relation: (question for the smaller, verb phrase), (for the larger, verb phrase), yes/no question
    "birth_date": (("Who was born earlier", "was born earlier"), ("Who was born later", "was born later"), "Was {a} born before {b}?"),
    "death_date": (("Who died first", "died first"), ("Who died later", "died later"), "Did {a} die before {b}?"),
    "release_date": (("Which came out first", "came out first"), ("Which came out later", "came out later"), "Was {a} released before {b}?"),
    "published": (("Which was published earlier", "was published earlier"), ("Which was published later", "was published later"), "Was {a} published before {b}?"),
    "founded": (("Which was founded earlier", "was founded earlier"), ("Which was founded later", "was founded later"), "Was {a} founded before {b}?"),
    "launched": (("Which was launched first", "was launched first"), ("Which was launched later", "was launched later"), "Was {a} launched before {b}?"),
    "opened": (("Which opened earlier", "opened earlier"), ("Which opened later", "opened later"), "Did {a} open before {b}?"),
    "painted": (("Which was painted first", "was painted first"), ("Which was painted later", "was painted later"), "Was {a} painted before {b}?"),
    "length": (("Which is shorter", "is shorter"), ("Which is longer", "is longer"), "Is {a} shorter than {b}?"),
    "height": (("Which is lower", "is lower"), ("Which is higher", "is higher"), "Is {a} lower than {b}?"),
    "population": (("Which has fewer inhabitants", "has fewer inhabitants"), ("Which has more inhabitants", "has more inhabitants"), "Does {a} have fewer inhabitants than {b}?"),
    "elevation": (("Which lies lower", "lies lower"), ("Which lies higher above sea level", "lies higher above sea level"), "Does {a} lie lower than {b}?"),
    "capacity": (("Which holds fewer spectators", "holds fewer spectators"), ("Which holds more spectators", "holds more spectators"), "Does {a} hold fewer spectators than {b}?"),
    "depth": (("Which is shallower", "is shallower"), ("Which is deeper", "is deeper"), "Is {a} shallower than {b}?"),
    "running_time": (("Which film is shorter", "is shorter"), ("Which film is longer", "is longer"), "Is {a} shorter than {b}?"),
    "pages": (("Which book has fewer pages", "has fewer pages"), ("Which book has more pages", "has more pages"), "Does {a} have fewer pages than {b}?"),
    "employees": (("Which has fewer employees", "has fewer employees"), ("Which has more employees", "has more employees"), "Does {a} have fewer employees than {b}?"),
    "students": (("Which has fewer students", "has fewer students"), ("Which has more students", "has more students"), "Does {a} have fewer students than {b}?"),
    "tracks": (("Which album has fewer tracks", "has fewer tracks"), ("Which album has more tracks", "has more tracks"), "Does {a} have fewer tracks than {b}?"),
}  # fmt: skip

SAME = {
    "birth_place": "Were {a} and {b} born in the same place? ; Do {a} and {b} share a birthplace? ; Was {a} born in the same place as {b}?",
    "death_place": "Did {a} and {b} die in the same place? ; Did {a} die in the same place as {b}?",
    "educated_at": "Did {a} and {b} attend the same university? ; Did {a} study at the same university as {b}?",
    "occupation": "Do {a} and {b} share an occupation? ; Are {a} and {b} known for the same occupation?",
    "director": "Were {a} and {b} directed by the same person? ; Do {a} and {b} share a director?",
    "composer": "Was the music for {a} and {b} composed by the same person? ; Do {a} and {b} share a composer?",
    "author": "Were {a} and {b} written by the same author? ; Do {a} and {b} share an author?",
    "publisher": "Were {a} and {b} published by the same house? ; Do {a} and {b} have the same publisher?",
    "builder": "Were {a} and {b} built by the same company? ; Do {a} and {b} share a builder?",
    "home_port": "Do {a} and {b} have the same home port? ; Is the home port of {a} the same as that of {b}?",
    "province": "Are {a} and {b} in the same province or district? ; Does {a} lie in the same province or district as {b}?",
    "mouth": "Do {a} and {b} flow into the same body of water? ; Does {a} flow into the same water as {b}?",
    "label": "Are {a} and {b} on the same record label? ; Do {a} and {b} share a record label?",
    "painter": "Were {a} and {b} painted by the same artist? ; Do {a} and {b} share a painter?",
    "museum": "Are {a} and {b} kept in the same museum? ; Does one museum own both {a} and {b}?",
    "war": "Were {a} and {b} part of the same war? ; Was {a} fought in the same war as {b}?",
}  # fmt: skip

KINSHIP = {
    "paternal grandfather": ("father", "father"),
    "paternal grandmother": ("father", "mother"),
    "maternal grandfather": ("mother", "father"),
    "maternal grandmother": ("mother", "mother"),
    "father-in-law": ("spouse", "father"),
    "mother-in-law": ("spouse", "mother"),
    "paternal great-grandfather": ("father", "father", "father"),
    "maternal great-grandmother": ("mother", "mother", "mother"),
}


class Asking(NamedTuple):
    """The wording of one relation."""

    questions: tuple[str, ...]
    phrases: tuple[str, ...]


def _held_out_last(alternatives: list[str]) -> tuple[str, ...]:
    """The alternatives with one that takes any subject at the end: a genitive would be ambiguous after a long one."""
    if "{x's}" in alternatives[-1]:
        plain = [a for a in alternatives if "{x's}" not in a]
        if plain:
            alternatives.remove(plain[-1])
            alternatives.append(plain[-1])
    return tuple(alternatives)


@functools.cache
def asking() -> dict[str, Asking]:
    out = {}
    for line in filter(None, map(str.strip, TABLE.split("\n"))):
        name, *columns = (c.strip() for c in line.split("|"))
        alternatives = [_held_out_last([a.strip() for a in c.split(";")]) for c in columns]
        out[name] = Asking(alternatives[0], alternatives[1] if len(alternatives) > 1 else ())
    return out


@functools.cache
def listing() -> dict[str, tuple[str, str, str]]:
    rows = (tuple(c.strip() for c in line.split("|")) for line in LISTS.strip().split("\n"))
    return {name: (verb, whole, item) for name, verb, whole, item in rows}
