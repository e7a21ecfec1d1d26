#!/bin/sh
# What an item costs, in cents: run by `godwit serve-subject` for each request of prices.get.ITEM. The answer is what is
# printed; a status other than 0 is HTTP status 500.
item=${GODWIT_PATH#/}
export item
price=$(awk '$1 == ENVIRON["item"] { print $2 }' "$1")
if [ -z "$price" ]; then
	echo "nobody knows what that costs" >&2
	exit 1
fi
printf '{"item":"%s","price":%s}\n' "$item" "$price"
