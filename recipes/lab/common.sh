# What the schedules for a lent GPU have in common: the environment, the time that is left, what is handed back.
#
# A schedule sets `seconds`, for how long it may work, and sources this file in the unpacked `subquest/` (README.md).
end=$(($(date +%s) + seconds)) python=${PYTHON:-python3}
export PYTHONPATH=$PWD/src:$PWD/packages SUBQUEST_CACHE=${SUBQUEST_CACHE:-$PWD/cache} PYTHONUNBUFFERED=1
mkdir -p back logs
touch "back/busy-$$"  # wait.sh goes by it
trap 'rm -f "back/busy-$$"' EXIT

left() { echo $((end - $(date +%s))); }  # seconds

# A file in pieces, which appear in back/ once they are whole.
keep() {  # FILE
    mkdir -p "pieces-$$" && split -b 15000000 -d "$1" "pieces-$$/$(basename "$1").part-" && mv "pieces-$$"/* back/
}
