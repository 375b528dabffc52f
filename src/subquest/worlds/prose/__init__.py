"""The wording of a world: phrase banks for articles and questions, and the engine that turns them into text."""
