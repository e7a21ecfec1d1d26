package audience

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/push"
)

func readTable(t *testing.T, text string) (rows []Row, bad []string) {
	t.Helper()
	r, err := NewTableReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for {
		row, _, err := r.Next()
		var line *LineError
		switch {
		case errors.Is(err, io.EOF):
			return rows, bad
		case errors.As(err, &line):
			bad = append(bad, err.Error())
		case err != nil:
			t.Fatal(err)
		default:
			rows = append(rows, row)
		}
	}
}

func TestTablesAreReadAsTheyAreWritten(t *testing.T) {
	names := []string{"a", "b"}
	var list []Endpoint
	for _, v := range []Value{
		Text("Oslo"), Text("42"), Number(42), Number(-1.5), Text("-1.5"), Bool(true), Text("true"), Text(""), Text("=1+1"), Text("'=1"), Text("'s-Hertogenbosch"),
		Text("''"), Text("'"), Text("+47 123"), Text("a,b\n\"c\""), Text("'42"), Text("@x"), Text("\tx"),
	} {
		list = append(list, Endpoint{
			ID: NewUUID(), Channel: push.Telegram, Address: json.RawMessage(`{"chat_id":1}`), Tags: []string{"=x", "y z"}, Locale: "nb", Timezone: "Europe/Oslo",
			Attributes: Attributes{"b": v}, Status: Disabled, DisabledReason: "=gone", Recipient: "ada",
		})
	}
	table := NewTable(names, true)
	var text string
	for i := range list {
		part, err := table.Rows(list[i : i+1])
		if err != nil {
			t.Fatal(err)
		}
		text += string(part)
	}
	for _, cell := range []string{",=", ",@", "\t,"} {
		if strings.Contains(text, cell) {
			t.Errorf("a spreadsheet may take %q for a formula:\n%s", cell, text)
		}
	}
	rows, bad := readTable(t, text)
	if len(rows) != len(list) || len(bad) > 0 {
		t.Fatalf("%d rows, %v", len(rows), bad)
	}
	for i, row := range rows {
		want := Row{
			ID: list[i].ID.String(), Channel: push.Telegram, Recipient: "ada", Address: list[i].Address, Tags: list[i].Tags, Attributes: list[i].Attributes,
			Locale: "nb", Timezone: "Europe/Oslo", Status: Disabled,
		}
		if !reflect.DeepEqual(row, want) {
			t.Errorf("read %+v\nwant %+v", row, want)
		}
	}
}

func TestTablesOfOthersAreUnderstood(t *testing.T) {
	rows, bad := readTable(t, "\ufeffendpoint, p256dh ,auth,uuid\nhttps://x.example/,P,A,123e4567-e89b-42d3-a456-426614174000\n")
	if len(bad) > 0 || len(rows) != 1 || rows[0].Channel != push.WebPush || rows[0].ID != "123e4567-e89b-42d3-a456-426614174000" ||
		string(rows[0].Address) != `{"endpoint":"https://x.example/","keys":{"p256dh":"P","auth":"A"}}` {
		t.Errorf("%+v %v", rows, bad)
	}
	rows, bad = readTable(t, "id,uuid,key_auth,key_p256dh,endpoint,is_active\n7,123e4567-e89b-42d3-a456-426614174000,A,P,https://x.example/,0\n")
	if len(bad) > 0 || len(rows) != 1 || rows[0].ID != "123e4567-e89b-42d3-a456-426614174000" || rows[0].Attributes["is_active"] != Number(0) ||
		string(rows[0].Address) != `{"endpoint":"https://x.example/","keys":{"p256dh":"P","auth":"A"}}` {
		t.Errorf("%+v %v", rows, bad)
	}
	rows, bad = readTable(t, "chat_id,tags,city,zip:text,age,attributes.status\n42,a; b|c,Oslo,0150,7,new\n43,,,5020,,\n\"x\n44,y\n")
	if len(rows) != 2 || len(bad) != 1 || !strings.HasPrefix(bad[0], "line 4: ") {
		t.Fatalf("%+v %v", rows, bad)
	}
	want := Row{
		Channel: push.Telegram, Address: json.RawMessage(`{"chat_id":"42"}`), Tags: []string{"a", "b", "c"},
		Attributes: Attributes{"city": Text("Oslo"), "zip": Text("0150"), "age": Number(7), "status": Text("new")},
	}
	if !reflect.DeepEqual(rows[0], want) || !reflect.DeepEqual(rows[1].Attributes, Attributes{"zip": Text("5020")}) {
		t.Errorf("%+v", rows)
	}
	if rows, bad := readTable(t, "channel,address\nwebhook,{\nfcm,\"{\"\"token\"\":\"\"x\"\"}\"\nfcm\n"); len(rows) != 1 || len(bad) != 2 {
		t.Errorf("%+v %v", rows, bad)
	}
	for _, head := range []string{"", "chat_id,1st name", "chat_id,"} {
		if _, err := NewTableReader(strings.NewReader(head)); err == nil {
			t.Errorf("%q is a heading", head)
		}
	}
}
