package words

import (
	"math"

	"golang.org/x/text/number"
)

// Decimal writes a number with a useful number of digits.
func (l *Language) Decimal(f float64) string {
	switch {
	case math.IsNaN(f):
		return "–"
	case math.Abs(f) >= 100 || f == math.Trunc(f):
		return l.Number(int64(math.Round(f)))
	}
	return l.form().Sprint(number.Decimal(f, number.MaxFractionDigits(1)))
}
