"""Files from elsewhere: resumed where they were cut, checked by SHA-256, under their name whole or not at all.

`subquest model get` and `subquest data get` share it. While a file is on its way it is a hidden `.part` file, locked by
the process that writes it. A later call continues it, after a kill too. It gets its name only once its digest is right.
What a later call could not use (a wrong digest, a part that no longer exists, a full disk) is removed at once.
"""
