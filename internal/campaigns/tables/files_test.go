package tables

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/text/encoding/charmap"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/sending/push"
)

// utf16Of encodes a text in UTF-16, as Windows programs do.
func utf16Of(s string, low, high int, mark bool) string {
	var b strings.Builder
	if mark {
		s = "\ufeff" + s
	}
	for _, c := range utf16.Encode([]rune(s)) {
		two := [2]byte{}
		two[low], two[high] = byte(c), byte(c>>8)
		b.Write(two[:])
	}
	return b.String()
}

func TestTablesOfAllEncodingsSeparatorsAndLineEndsAreRead(t *testing.T) {
	want := []audience.Row{}
	for i, city := range []string{"Zürich", "Москва; юг", "a\tb|c,d"} {
		want = append(want, audience.Row{
			Channel: push.Telegram, Address: []byte(fmt.Sprintf(`{"chat_id":"%d"}`, i+1)), Tags: []string{"news"}, Attributes: audience.Attributes{"city": audience.Text(city)},
		})
	}
	encodings := map[string]func(string) string{
		"UTF-8": func(s string) string { return s }, "with a mark": func(s string) string { return "\ufeff" + s },
		"UTF-16LE": func(s string) string { return utf16Of(s, 0, 1, true) }, "UTF-16BE": func(s string) string { return utf16Of(s, 1, 0, true) },
		"UTF-16LE without a mark": func(s string) string { return utf16Of(s, 0, 1, false) }, "UTF-16BE without a mark": func(s string) string { return utf16Of(s, 1, 0, false) },
	}
	for encoding, encode := range encodings {
		for _, separator := range []string{",", ";", "\t", "|"} {
			for _, end := range []string{"\n", "\r\n", "\r"} {
				for _, hint := range []string{"", "sep=" + separator + end, end + end} {
					text := hint + strings.Join([]string{`"Chat ID"`, ` Tags `, `city`}, separator) + end
					for i, city := range []string{"Zürich", "Москва; юг", "a\tb|c,d"} {
						text += strings.Join([]string{fmt.Sprint(i + 1), `"news"`, `"` + city + `"`}, separator) + end + end
					}
					rows, bad := readTable(t, encode(text))
					if len(bad) > 0 || !reflect.DeepEqual(rows, want) {
						t.Fatalf("%s, %q, %q, %q: %+v %v", encoding, separator, end, hint, rows, bad)
					}
				}
			}
		}
	}
}

func TestEncodingsThatCannotBeKnownAreAskedFor(t *testing.T) {
	text := "chat_id;city\r\n1;Z\xfcrich\r\n2;\x80uro\r\n3;x\x81\r\n"
	var ask *textfile.AskError
	if _, err := Open(strings.NewReader(text), Options{Format: "csv"}); !errors.As(err, &ask) {
		t.Errorf("Windows-1252 was taken for something: %v", err)
	}
	for _, name := range []string{"windows-1252", "Windows 1252", "cp1252", "ANSI"} {
		rows, bad := readFile(t, text, Options{Format: "csv", Encoding: name})
		if len(rows) != 2 || rows[0].Attributes["city"] != audience.Text("Zürich") || rows[1].Attributes["city"] != audience.Text("€uro") || len(bad) != 1 || !strings.HasPrefix(bad[0], "line 4: ") {
			t.Errorf("%s: %+v %q", name, rows, bad)
		}
	}
	cyrillic, err := charmap.Windows1251.NewEncoder().String("chat_id,city\n1,Москва\n")
	if err != nil {
		t.Fatal(err)
	}
	if rows, bad := readFile(t, cyrillic, Options{Format: "csv", Encoding: "windows-1251"}); len(bad) > 0 || rows[0].Attributes["city"] != audience.Text("Москва") {
		t.Errorf("%+v %q", rows, bad)
	}
	// The file is UTF-8 except for one line.
	rows, bad := readTable(t, "chat_id,city\n1,Zürich\n2,Z\xfcrich\n3,Oslo\n")
	if len(rows) != 2 || len(bad) != 1 || !strings.HasPrefix(bad[0], "line 3: is not UTF-8") {
		t.Errorf("%+v %q", rows, bad)
	}
	for name, text := range map[string]string{"utf-99": "chat_id\n1\n", "": "\xff\xfe\x00\x00c\x00\x00\x00"} {
		if _, err := Open(strings.NewReader(text), Options{Format: "csv", Encoding: name}); err == nil || errors.As(err, &ask) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestBadLinesCostNoOthers(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	for name, c := range map[string]struct {
		text string
		good string // chat_ids
		bad  []string
	}{
		"a quote that nobody closes":             {"chat_id,city\n1,a\n2,\"Oslo\n3,b\n4,\"c\"\n", "134", []string{`line 3: has a quote`}},
		"one before rows without any":            {"chat_id,city\n1,a\n2,\"Oslo\n3,b\n4,c\n", "134", []string{`line 3: has a quote`}},
		"one before many rows without any":       {"chat_id,city\n2,\"Oslo\n" + strings.Repeat("3,b\n", 2*maxLines), strings.Repeat("3", 2*maxLines), []string{`line 2: has a quote`}},
		"one at the end":                         {"chat_id,city\n1,a\n2,\"Oslo", "1", []string{`line 3: has a quote`}},
		"one that the next cell seems to close":  {"chat_id,city\n2,\"Oslo\n3,b\n4,\"c, d\",\n", "34", []string{`line 2: has a quote`}},
		"text behind a quote":                    {"chat_id,city\n1,\"a\"b\n2,c\n", "2", []string{`line 2: has text behind`}},
		"quotes within a cell without quotes":    {"chat_id,city\n1,the \"old\" town\n2,5\"\n", "12", nil},
		"line breaks within a cell":              {"chat_id,city\r\n1,\"a\r\nb\n\"\r\n2,c\r\n", "12", nil},
		"a trailing separator":                   {"chat_id,city,\n1,a,\n2,b\n3,c,x\n4,d,,,\n", "14", []string{"line 3: has 2 cells", `line 4: has "x" in column 3`}},
		"too few and too many cells":             {"chat_id,city\n1\n2,a,b\n3,c\n", "3", []string{"line 2: has 1 cells", "line 3: has 3 cells"}},
		"empty lines and rows of separators":     {"\n\nchat_id,city\n\n,\n1,a\n\r\n\"\",\n2,b\n\n", "12", nil},
		"a line that is too long":                {"chat_id,city\n1," + long + "\n2,b\n" + long + "\n3,c", "23", []string{"line 2: has more than 65536 bytes", "line 4: has more than 65536 bytes"}},
		"a cell that goes on for too long":       {"chat_id,city\n1,\"" + strings.Repeat("x\n", 300) + "\"\n", "", nil},
		"a zero byte":                            {"chat_id,city\n1,a\n2,b\n" + strings.Repeat("3,c\n", 20_000) + "4,\x00\n5,e\n", "", nil},
		"an address that is no JSON":             {"chat_id,address\n1,\n2,{\n3,\n", "13", []string{"line 3: address is not JSON"}},
		"a status that nobody knows":             {"chat_id,status\n1,Active\n2,unsubscribed\n", "1", []string{"line 3: status"}},
		"true and false that a heading asks for": {"chat_id,vip:bool\n1,yes\n2,perhaps\n3,0\n", "13", []string{`line 3: vip: "perhaps" cannot be read as true and false`}},
	} {
		rows, bad := readTable(t, c.text)
		if strings.HasPrefix(name, "a zero") {
			if len(rows) != 20_003 || len(bad) != 1 || !strings.Contains(bad[0], "line 20004: has a zero byte") {
				t.Errorf("%s: %d rows, %q", name, len(rows), bad)
			}
			continue
		}
		if strings.HasPrefix(name, "a cell that goes") {
			if len(rows) != 0 || !strings.HasPrefix(bad[0], "line 2: has a quote") {
				t.Errorf("%s: %d rows, %q", name, len(rows), bad[0])
			}
			continue
		}
		ids := ""
		for _, r := range rows {
			ids += strings.Trim(string(r.Address), `{}":chat_id`)
		}
		same := ids == c.good && len(bad) == len(c.bad)
		for i := 0; same && i < len(bad); i++ {
			same = strings.HasPrefix(bad[i], c.bad[i])
		}
		if !same {
			t.Errorf("%s: %s %q, want %s %q", name, ids, bad, c.good, c.bad)
		}
	}
	rows, _ := readTable(t, "chat_id,city\r\n1,\"a\r\nb\nc\"\r\n")
	if got, _ := rows[0].Attributes["city"].Text(); got != "a\r\nb\nc" {
		t.Errorf("line breaks in a cell became %q", got)
	}
}

// endless is a line without an end.
type endless struct{ left int }

func (e *endless) Read(b []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := min(len(b), e.left)
	for i := range b[:n] {
		b[i] = 'x'
	}
	e.left -= n
	return n, nil
}

func TestLongLinesTakeNoMemory(t *testing.T) {
	for _, format := range []string{"csv", "ndjson"} {
		head := map[string]string{"csv": "chat_id,city\n1,", "ndjson": "{"}[format]
		tail := map[string]string{"csv": "\n2,b\n", "ndjson": "\n{\"channel\":\"telegram\",\"address\":{\"chat_id\":2}}\n"}[format]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := Open(io.MultiReader(strings.NewReader(head), &endless{64 << 20}, strings.NewReader(tail)), Options{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		_, line, err := r.Next()
		var bad *audience.LineError
		if want := strings.Count(head, "\n") + 1; !errors.As(err, &bad) || line != want {
			t.Errorf("%s: line %d: %v", format, line, err)
		}
		if row, _, err := r.Next(); err != nil || !strings.Contains(string(row.Address), "2") {
			t.Errorf("%s: the next line: %+v, %v", format, row, err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
			t.Errorf("%s: %d bytes were allocated", format, took)
		}
	}
}

func TestColumnsAreReadAsOneKind(t *testing.T) {
	for _, c := range []struct {
		name  string
		cells []string
		want  []audience.Value
	}{
		{"vip", []string{"TRUE", "FALSE", "true"}, []audience.Value{audience.Bool(true), audience.Bool(false), audience.Bool(true)}},
		{"vip", []string{"WAHR", "FALSCH"}, []audience.Value{audience.Bool(true), audience.Bool(false)}},
		{"country", []string{"NO", "SE"}, []audience.Value{audience.Text("NO"), audience.Text("SE")}},
		{"answer", []string{"yes", "no"}, []audience.Value{audience.Text("yes"), audience.Text("no")}},
		{"answer:bool", []string{"yes", "no"}, []audience.Value{audience.Bool(true), audience.Bool(false)}},
		{"mixed", []string{"TRUE", "maybe"}, []audience.Value{audience.Text("TRUE"), audience.Text("maybe")}},
		{"price", []string{"12.50", "9.90", "10.00", "100"}, []audience.Value{audience.Number(12.5), audience.Number(9.9), audience.Number(10), audience.Number(100)}},
		{"price", []string{"12.50", "n/a"}, []audience.Value{audience.Text("12.50"), audience.Text("n/a")}},
		{"zip", []string{"5020", "0150"}, []audience.Value{audience.Text("5020"), audience.Text("0150")}},
		{"phone", []string{"+4712345678", "12"}, []audience.Value{audience.Text("+4712345678"), audience.Text("12")}},
		{"order", []string{"9007199254740993", "1"}, []audience.Value{audience.Text("9007199254740993"), audience.Text("1")}},
		{"order", []string{"0.1234567890123456789"}, []audience.Value{audience.Text("0.1234567890123456789")}},
		{"size", []string{"1e5", "1E5"}, []audience.Value{audience.Text("1e5"), audience.Text("1E5")}},
		{"zero", []string{"-0", "0"}, []audience.Value{audience.Text("-0"), audience.Text("0")}},
		{"price", []string{"12,50"}, []audience.Value{audience.Text("12,50")}},
		{"zip:text", []string{"5020"}, []audience.Value{audience.Text("5020")}},
		{"list", []string{`["a", "b"]`}, []audience.Value{audience.Text(`["a", "b"]`)}},
	} {
		text := "chat_id;" + c.name + "\n"
		for i, cell := range c.cells {
			text += fmt.Sprintf("%d;\"%s\"\n", i+1, strings.ReplaceAll(cell, `"`, `""`))
		}
		rows, bad := readTable(t, text)
		name, _, _ := strings.Cut(c.name, ":")
		for i, want := range c.want {
			if len(bad) > 0 || rows[i].Attributes[name] != want {
				t.Errorf("%s %q: %+v %q, want %v", c.name, c.cells, rows, bad, c.want)
				break
			}
		}
	}
	// The reader samples the first rows only. It reports a later cell of another kind.
	rows, bad := readTable(t, "chat_id,age\n"+strings.Repeat("1,42\n", sampleRows)+"2,n/a\n")
	last := rows[len(rows)-1]
	if len(bad) > 0 || last.Attributes["age"] != audience.Text("n/a") || len(last.Warnings) != 1 {
		t.Errorf("%+v %q", last, bad)
	}
}

func TestColumnsAreNamedWhateverBecomesOfThem(t *testing.T) {
	become := func(head string) string {
		r, err := Open(strings.NewReader(head+"\n"), Options{Format: "csv"})
		if err != nil {
			return err.Error()
		}
		var all []string
		for _, c := range r.Columns() {
			all = append(all, c.Heading+" = "+c.Becomes())
		}
		return strings.Join(all, ", ")
	}
	for head, want := range map[string]string{
		"Chat ID,user id,created_at,last_seen_at":                   "Chat ID = address: chat_id, user id = attribute user_id, text, created_at = attribute created_at, text, last_seen_at = attribute last_seen_at, text",
		"UUID,id,endpoint":                                          "UUID = id, id = not stored, endpoint = address: endpoint",
		"id,channel,status,created_at,last_seen_at,disabled_reason": "id = id, channel = channel, status = says who is left out, created_at = not stored, last_seen_at = not stored, disabled_reason = not stored",
		"token,attributes,First Name":                               "token = address: token, attributes = attributes, First Name = attribute First_Name, text",
	} {
		if got := become(head); got != want {
			t.Errorf("%s:\n%s, want\n%s", head, got, want)
		}
	}
}

func TestExportsOfOtherServicesAreRead(t *testing.T) {
	rows, bad := readTable(t, `id,identifier,session_count,language,timezone,device_type,tags,invalid_identifier,external_user_id,web_auth,web_p256
123e4567-e89b-42d3-a456-426614174000,https://push.example.org/a?x=1&#038;y=2,7,en,-28800,5,"{""level"":""5"",""vip"":true}",f,ada,A,P
123e4567-e89b-42d3-a456-426614174001,00ff,1,nb,3600,0,,f,,,
123e4567-e89b-42d3-a456-426614174002,tok,1,nb,3600,1,,t,,,
`)
	if len(bad) > 0 || len(rows) != 3 {
		t.Fatalf("%+v %q", rows, bad)
	}
	a := rows[0]
	if a.Channel != push.WebPush || string(a.Address) != `{"endpoint":"https://push.example.org/a?x=1&y=2","keys":{"p256dh":"P","auth":"A"}}` || a.Recipient != "ada" ||
		a.Locale != "en" || a.Timezone != "-28800" || a.Attributes["level"] != audience.Text("5") || a.Attributes["vip"] != audience.Bool(true) || a.Attributes["session_count"] != audience.Number(7) {
		t.Errorf("%+v", a)
	}
	if rows[1].Channel != push.APNs || rows[2].Channel != push.FCM || rows[2].Status != audience.Disabled {
		t.Errorf("%+v", rows[1:])
	}
	rows, bad = readTable(t, "subscription,tags,attributes\n"+`"{""endpoint"":""https://x.example/"",""keys"":{}}","[""a"",""b c""]","{""n"":9007199254740993,""p"":12.50}"`+"\n")
	if len(bad) > 0 || rows[0].Channel != push.WebPush || !reflect.DeepEqual(rows[0].Tags, []string{"a", "b c"}) || rows[0].Attributes["n"] != audience.Text("9007199254740993") ||
		rows[0].Attributes["p"] != audience.Number(12.5) {
		t.Errorf("%+v %q", rows, bad)
	}
}

func TestNullsOfDatabasesAreEmpty(t *testing.T) {
	for name, text := range map[string]string{
		"phpMyAdmin":      "\"chat_id\",\"locale\",\"city\",\"age\"\n\"1\",NULL,\"NULL\",NULL\n\"2\",\"nb\",NULL,\"42\"\n\"3\",NULL,\"a\r\nb\",NULL\n",
		"semicolons":      "chat_id;locale;city;age\r\n1;NULL;\"NULL\";NULL\r\n2;nb;NULL;42\r\n3;NULL;\"a\r\nb\";NULL\r\n",
		"MySQL's outfile": "chat_id\tlocale\tcity\tage\n1\t\\N\t\"NULL\"\t\\N\n2\tnb\t\\N\t42\n3\t\\N\t\"a\r\nb\"\t\\N\n",
	} {
		rows, bad := readTable(t, text)
		if len(bad) > 0 || len(rows) != 3 {
			t.Errorf("%s: %+v %q", name, rows, bad)
			continue
		}
		want := []audience.Attributes{{"city": audience.Text("NULL")}, {"age": audience.Number(42)}, {"city": audience.Text("a\r\nb")}}
		for i, w := range want {
			if locale := map[bool]string{true: "nb"}[i == 1]; !reflect.DeepEqual(rows[i].Attributes, w) || rows[i].Locale != locale {
				t.Errorf("%s, row %d: %+v, want %v", name, i+1, rows[i], w)
			}
		}
	}
	rows, bad := readTable(t, "chat_id,city\n1,null\n2,NULLE\n3,Null\n")
	for i, want := range []string{"null", "NULLE", "Null"} {
		if len(bad) > 0 || rows[i].Attributes["city"] != audience.Text(want) {
			t.Errorf("%+v %q, want %s", rows[i], bad, want)
		}
	}
}

func TestNDJSONIsReadLineByLine(t *testing.T) {
	one := func(n int) string { return fmt.Sprintf(`{"channel":"telegram","address":{"chat_id":%d}}`, n) }
	text := one(1) + "\r\n\r\n" + "{\n" + one(2) + "\n[" + one(3) + "]\n" + `{"channel":"telegram","chat":1}` + "\n" + one(4) + one(5) + "\n" + one(6)
	for name, text := range map[string]string{"plain": text, "mark": "\ufeff" + text, "UTF-16": utf16Of(text, 0, 1, true)} {
		rows, bad := readFile(t, text, Options{})
		if len(rows) != 3 || len(bad) != 4 || !strings.HasPrefix(bad[0], "line 3: ") || !strings.Contains(bad[1], "line 5: begins a JSON list") || !strings.Contains(bad[2], `line 6: cannot be read as JSON: json: unknown field "chat"`) ||
			!strings.Contains(bad[3], "line 7: has more than one") {
			t.Errorf("%s: %d rows, %q", name, len(rows), bad)
		}
	}
	rows, bad := readFile(t, `{"channel":"telegram","address":{"chat_id":1},"attributes":{"n":9007199254740993,"m":9007199254740992,"x":1e-400}}`, Options{})
	if len(bad) > 0 || rows[0].Attributes["n"] != audience.Text("9007199254740993") || rows[0].Attributes["m"] != audience.Number(9007199254740992) || rows[0].Attributes["x"] != audience.Text("1e-400") {
		t.Errorf("%+v %q", rows, bad)
	}
}

// FuzzTables: reading any file ends, line numbers grow, and nothing panics.
func FuzzTables(f *testing.F) {
	for _, text := range []string{
		"chat_id,tags\n1,a;b\n", "\ufeff\"chat_id\";\"x\"\r\n\"1\";\"a\r\nb\"\r\n", "a\tb\rc\td\r", "chat_id,x\n1,\"open\n2,b\n", "sep=|\nchat_id|x\n1|\"\"\"\"\n",
		utf16Of("chat_id,x\n1,ø\n", 0, 1, true), utf16Of("chat_id,x\n1,ø\n", 1, 0, false), "chat_id\n1\x00\n", "{\"channel\":\"fcm\"}\n{\n", "identifier,device_type,tags\nx,0,{}\n",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, csv bool) {
		o := Options{}
		if csv {
			o.Format = "csv"
		}
		r, err := Open(strings.NewReader(text), o)
		if err != nil {
			return
		}
		last := 0
		for {
			_, line, err := r.Next()
			var bad *audience.LineError
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil && !errors.As(err, &bad) {
				t.Fatal(err)
			}
			if line <= last || line > len(text)+1 {
				t.Fatalf("line %d after line %d", line, last)
			}
			last = line
		}
	})
}
