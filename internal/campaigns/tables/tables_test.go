package tables

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

func readTable(t *testing.T, text string) (rows []audience.Row, bad []string) {
	t.Helper()
	return readFile(t, text, Options{Format: "csv"})
}

func readFile(t *testing.T, text string, o Options) (rows []audience.Row, bad []string) {
	t.Helper()
	r, err := Open(strings.NewReader(text), o)
	if err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	for {
		row, _, err := r.Next()
		var line *audience.LineError
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
	var list []audience.Endpoint
	for _, v := range []audience.Value{
		audience.Text("Oslo"), audience.Text("42"), audience.Number(42), audience.Number(-1.5), audience.Text("-1.5"), audience.Bool(true), audience.Text("true"), audience.Text(""), audience.Text("=1+1"), audience.Text("'=1"), audience.Text("'s-Hertogenbosch"),
		audience.Text("''"), audience.Text("'"), audience.Text("+47 123"), audience.Text("a,b\n\"c\""), audience.Text("'42"), audience.Text("@x"), audience.Text("\tx"),
	} {
		list = append(list, audience.Endpoint{
			ID: audience.NewUUID(), Channel: push.Telegram, Address: json.RawMessage(`{"chat_id":1}`), Tags: []string{"=x", "y z"}, Locale: "nb", Timezone: "Europe/Oslo",
			Attributes: audience.Attributes{"b": v}, Status: audience.Disabled, DisabledReason: "=gone", Recipient: "ada",
		})
	}
	table := audience.NewTable(names, true)
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
		want := audience.Row{
			ID: list[i].ID.String(), Channel: push.Telegram, Recipient: "ada", Address: list[i].Address, Tags: list[i].Tags, Attributes: list[i].Attributes,
			Locale: "nb", Timezone: "Europe/Oslo", Status: audience.Disabled,
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
	if len(bad) > 0 || len(rows) != 1 || rows[0].ID != "123e4567-e89b-42d3-a456-426614174000" || rows[0].Attributes["is_active"] != audience.Number(0) ||
		string(rows[0].Address) != `{"endpoint":"https://x.example/","keys":{"p256dh":"P","auth":"A"}}` {
		t.Errorf("%+v %v", rows, bad)
	}
	rows, bad = readTable(t, "chat_id,tags,city,zip:text,age,attributes.status\n42,a; b|c,Oslo,0150,7,new\n43,,,5020,,\n\"x\n44,y\n")
	if len(rows) != 2 || len(bad) != 2 || !strings.HasPrefix(bad[0], "line 4: ") {
		t.Fatalf("%+v %v", rows, bad)
	}
	want := audience.Row{
		Channel: push.Telegram, Address: json.RawMessage(`{"chat_id":"42"}`), Tags: []string{"a", "b", "c"},
		Attributes: audience.Attributes{"city": audience.Text("Oslo"), "zip": audience.Text("0150"), "age": audience.Number(7), "status": audience.Text("new")},
	}
	if !reflect.DeepEqual(rows[0], want) || !reflect.DeepEqual(rows[1].Attributes, audience.Attributes{"zip": audience.Text("5020")}) {
		t.Errorf("%+v", rows)
	}
	if rows, bad := readTable(t, "channel,address\nwebhook,{\nfcm,\"{\"\"token\"\":\"\"x\"\"}\"\nfcm\n"); len(rows) != 1 || len(bad) != 2 {
		t.Errorf("%+v %v", rows, bad)
	}
	for _, head := range []string{"", "\n\n", "chat_id,1st name", "chat_id,город", ",", "chat_id,Chat ID", "a,b,a", "\"chat_id"} {
		if _, err := Open(strings.NewReader(head), Options{Format: "csv"}); err == nil {
			t.Errorf("%q is a heading", head)
		}
	}
}
