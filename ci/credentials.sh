# Sourced by the steps of action.yml that may have credentials: exports the NAME=value lines of $TITHE_CREDENTIALS.
#
# Says by number which line is wrong, never what is in it. Lines without a value are left out: a job of a fork has
# none. Sets `withheld` where lines are there and none has a value.

number=0
given=0
withheld=""
while IFS= read -r line || [ -n "$line" ]; do
  number=$((number + 1))
  line="${line%$'\r'}"
  if [ -z "$line" ]; then continue; fi
  if ! [[ "$line" =~ ^[A-Za-z_][A-Za-z0-9_]*= ]]; then
    echo "tithe: credentials: line $number is not NAME=value; a value of several lines belongs in a file" >&2
    exit 2
  fi
  if [ -n "${line#*=}" ]; then
    export "${line?}"
    given=$((given + 1))
  else
    withheld=yes
  fi
done <<< "$TITHE_CREDENTIALS"
if [ "$given" -gt 0 ]; then withheld=""; fi
unset line number given TITHE_CREDENTIALS
