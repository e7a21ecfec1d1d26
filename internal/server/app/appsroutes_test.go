package app_test

// subscription is a browser's push subscription.
const subscription = `{"endpoint":"https://push.example/1","keys":{"p256dh":"BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU","auth":"AAECAwQFBgcICQoLDA0ODw"}}`

// how describes the call of an operation. $others stands for the calling app's name, and $name for the server's id of a thing in the target
// app. A text without $ is the same in both apps, so such a call may succeed, but must stay in its own app.
type how struct {
	params   map[string]string // of the path
	query    string
	body     string
	also     string // body of a second call
	shows    bool   // an app sees its mark in its own data
	dumped   bool   // the answer contains no text of the app, but is compared before and after
	endless  bool   // the answer has no end
	socket   bool
	passes   bool // the call succeeds: it treats another app's thing like a missing one, or apps choose their own ids
	public   bool // its answer is for everybody
	noCursor bool // the list ends with the first page, or is paged otherwise
}

func id(v string) map[string]string      { return map[string]string{"id": v} }
func named(v string) map[string]string   { return map[string]string{"name": v} }
func channel(v string) map[string]string { return map[string]string{"channel": v} }

func object(group, object string) map[string]string {
	return map[string]string{"group": group, "object": object}
}

const note = `{"to":"ann","id":"same","title":"of-red"}`

// meetings describes the call of every operation of the document except preflights.
var meetings = map[string]how{
	"POST /v1/notifications":                {body: `{"to":["ann","carl"],"title":"of-red"}`},
	"GET /v1/notifications":                 {dumped: true},
	"POST /v1/notifications/batch":          {body: note + "\n" + note},
	"POST /v1/notify/{recipient}":           {params: map[string]string{"recipient": "ann"}, query: "id=same", body: "of-red"},
	"GET /v1/notifications/{id}":            {params: id("same"), dumped: true},
	"GET /v1/notifications/{id}/timeline":   {params: id("same"), query: "to=ann", dumped: true},
	"DELETE /v1/notifications/{id}":         {params: id("same")},
	"GET /v1/recipients":                    {dumped: true},
	"GET /v1/recipients/{id}":               {params: id("ann"), dumped: true},
	"DELETE /v1/recipients/{id}":            {params: id("ann")},
	"GET /v1/recipients/{id}/timeline":      {params: id("ann"), dumped: true},
	"GET /v1/recipients/{id}/notifications": {params: id("ann"), dumped: true},
	"DELETE /v1/recipients/{id}/sessions":   {params: id("carl")},

	"GET /v1/recipients/{id}/preferences":    {params: id("ann"), shows: true},
	"PUT /v1/recipients/{id}/preferences":    {params: id("ann"), body: `{"categories":{"*":{"channels":["webhook"]}}}`},
	"DELETE /v1/recipients/{id}/preferences": {params: id("ann")},
	"GET /v1/categories":                     {dumped: true},
	"GET /v1/categories/{category}":          {params: map[string]string{"category": "same"}, dumped: true},
	"PUT /v1/categories/{category}":          {params: map[string]string{"category": "same"}, body: `{"critical":true}`},
	"DELETE /v1/categories/{category}":       {params: map[string]string{"category": "same"}},
	"GET /v1/digests":                        {shows: true},
	"GET /v1/digests/{id}":                   {params: id("$digest"), shows: true},
	"GET /v1/inbox":                          {query: "to=ann", shows: true},
	"GET /v1/inbox/counts":                   {query: "to=ann"},
	"GET /v1/inbox/{id}":                     {params: id("kept"), query: "to=ann", shows: true},
	"POST /v1/inbox/{id}":                    {params: id("kept"), query: "to=ann", body: `{"read":true}`},
	"POST /v1/inbox/seen":                    {query: "to=ann"},
	"POST /v1/inbox/read":                    {query: "to=ann"},
	"POST /v1/inbox/archived":                {query: "to=ann"},
	"GET /v1/batches":                        {dumped: true},
	"GET /v1/batches/{group}":                {params: map[string]string{"group": "same"}, dumped: true},
	"PUT /v1/batches/{group}":                {params: map[string]string{"group": "same"}, body: `{"batch":"7s"}`},
	"DELETE /v1/batches/{group}":             {params: map[string]string{"group": "same"}},

	"POST /v1/topics/{topic}":           {params: map[string]string{"topic": "same"}, body: "of-red", passes: true},
	"POST /v1/requests/{subject}":       {params: map[string]string{"subject": "of.nobody"}, query: "timeout=1s", passes: true},
	"POST /v1/recipients/{id}/requests": {params: id("of-nobody"), query: "timeout=1s", passes: true},
	"GET /v1/gateway":                   {},
	"GET /v1/gateway/{service}":         {params: map[string]string{"service": "same"}, dumped: true},
	"PUT /v1/gateway/{service}":         {params: map[string]string{"service": "same"}, body: `{"access":"public"}`},
	"DELETE /v1/gateway/{service}":      {params: map[string]string{"service": "same"}},

	"GET /v1/objects":                                {dumped: true, noCursor: true},
	"GET /v1/objects/{group}":                        {params: map[string]string{"group": "north"}, dumped: true},
	"GET /v1/objects/{group}/{object}":               {params: object("north", "same"), shows: true},
	"PUT /v1/objects/{group}/{object}":               {params: object("north", "same"), body: `{"version":9,"payload":"of-red"}`},
	"POST /v1/objects/{group}/{object}":              {params: object("north", "same"), body: `{"version":9,"payload":"of-red"}`},
	"DELETE /v1/objects/{group}/{object}":            {params: object("north", "same")},
	"GET /v1/objects/{group}/{object}/registrations": {params: object("north", "same"), dumped: true},
	"GET /v1/objects/{group}/{object}/broadcast":     {params: object("north", "same")},
	"PUT /v1/objects/{group}/{object}/broadcast":     {params: object("north", "same"), body: `{"keep":true}`},
	"DELETE /v1/objects/{group}/{object}/broadcast":  {params: object("north", "same")},

	"POST /v1/endpoints":        {body: `{"channel":"webhook","address":{"url":"https://a.example/"},"id":"$endpoint-2"}`, passes: true},
	"GET /v1/endpoints":         {shows: true},
	"POST /v1/endpoints/batch":  {body: `{"channel":"webhook","address":{"url":"https://a.example/"},"id":"$endpoint-2"}`, passes: true},
	"GET /v1/endpoints/export":  {query: "tag=same", shows: true},
	"GET /v1/endpoints/{id}":    {params: id("$endpoint"), shows: true},
	"PATCH /v1/endpoints/{id}":  {params: id("$endpoint"), body: `{"status":"disabled"}`},
	"DELETE /v1/endpoints/{id}": {params: id("$endpoint")},
	"GET /v1/audience":          {dumped: true},
	"GET /v1/audience/days":     {dumped: true},
	"POST /v1/audience/count":   {body: `{"where":"mark = \"of-blue\""}`},

	"POST /compat/perfecty/{app}/v1/push/users":                   {params: map[string]string{"app": "blue"}, body: `{"user":` + subscription + `,"user_id":"$visitor"}`},
	"GET /compat/perfecty/{app}/v1/push/users/{uuid}":             {params: map[string]string{"app": "$others", "uuid": "$visitor"}, passes: true},
	"POST /compat/perfecty/{app}/v1/push/users/{uuid}/unregister": {params: map[string]string{"app": "$others", "uuid": "$visitor"}},

	"GET /v1/events": {query: "since=0", endless: true, dumped: true},
	"POST /v1/acks":  {body: `{"ids":["same"]}`, also: `{"tokens":["$forged-ack"],"event":"clicked"}`},

	"GET /v1/apps":             {},
	"POST /v1/apps":            {body: `{"name":"of-red"}`},
	"GET /v1/apps/{app}":       {params: map[string]string{"app": "blue"}},
	"PATCH /v1/apps/{app}":     {params: map[string]string{"app": "blue"}, body: `{"origins":["https://of-red.example"]}`},
	"DELETE /v1/apps/{app}":    {params: map[string]string{"app": "blue"}},
	"POST /v1/operator/rotate": {},
	"POST /v1/tokens":          {body: `{"recipient":"ann"}`},

	"POST /v1/keys":        {body: `{"roles":["read"],"name":"of-red"}`},
	"GET /v1/keys":         {shows: true},
	"GET /v1/keys/{id}":    {params: id("$key")},
	"DELETE /v1/keys/{id}": {params: id("$key")},

	"GET /v1/channels":                  {shows: true},
	"GET /v1/channels/{channel}":        {params: channel("webpush"), shows: true},
	"PUT /v1/channels/{channel}":        {params: channel("webpush"), body: `{"subject":"mailto:of-red@a.example"}`},
	"DELETE /v1/channels/{channel}":     {params: channel("webhook")},
	"POST /v1/channels/{channel}/files": {params: channel("webhook"), body: "x"},
	"POST /v1/channels/{channel}/test":  {params: channel("webhook"), body: `{"recipient":"ann"}`},
	"GET /v1/webpush/key":               {public: true},

	"POST /v1/campaigns":                    {body: `{"name":"of-red","content":{"title":"of-red"},"audience":{"channels":["webhook"]}}`},
	"GET /v1/campaigns":                     {shows: true},
	"GET /v1/campaigns/days":                {dumped: true},
	"GET /v1/campaigns/{id}":                {params: id("$campaign"), shows: true},
	"PUT /v1/campaigns/{id}":                {params: id("$draft"), body: `{"name":"of-red","content":{"title":"of-red"},"audience":{"channels":["webhook"]}}`},
	"DELETE /v1/campaigns/{id}":             {params: id("$draft")},
	"POST /v1/campaigns/{id}/start":         {params: id("$draft")},
	"POST /v1/campaigns/{id}/pause":         {params: id("$draft")},
	"POST /v1/campaigns/{id}/resume":        {params: id("$draft")},
	"POST /v1/campaigns/{id}/cancel":        {params: id("$draft")},
	"POST /v1/campaigns/{id}/recall":        {params: id("$campaign")},
	"POST /v1/campaigns/{id}/correct":       {params: id("$campaign"), body: `{"content":{"title":"of-red"}}`},
	"POST /v1/campaigns/{id}/decide":        {params: id("$campaign"), body: `{"variant":"A"}`},
	"POST /v1/campaigns/{id}/clone":         {params: id("$campaign"), body: `{"name":"of-red"}`},
	"POST /v1/campaigns/{id}/retry-unknown": {params: id("$campaign")},
	"POST /v1/campaigns/{id}/test":          {params: id("$draft"), body: `{"endpoints":["$endpoint"]}`},
	"POST /v1/campaigns/{id}/preview":       {params: id("$draft"), body: `{"endpoint":"$endpoint"}`},
	"GET /v1/campaigns/{id}/deliveries":     {params: id("$campaign"), dumped: true, noCursor: true},
	"GET /v1/campaigns/{id}/events":         {params: id("$campaign"), dumped: true},
	"GET /v1/campaigns/{id}/days":           {params: id("$campaign"), dumped: true},
	"POST /v1/track":                        {body: `{"token":"$forged","event":"clicked"}`},
	"GET /v1/click/{token}":                 {params: map[string]string{"token": "$forged"}, query: "to=https://a.example"},

	"GET /v1/templates":                  {shows: true},
	"GET /v1/templates/{name}":           {params: named("same"), shows: true},
	"GET /v1/templates/{name}/revisions": {params: named("same"), shows: true},
	"PUT /v1/templates/{name}":           {params: named("same"), body: `{"content":{"title":"of-red"}}`},
	"DELETE /v1/templates/{name}":        {params: named("same-2")},
	"POST /v1/templates/{name}/preview":  {params: named("same")},

	"GET /v1/segments":              {shows: true},
	"GET /v1/segments/{name}":       {params: named("same"), shows: true},
	"PUT /v1/segments/{name}":       {params: named("same"), body: `{"where":"mark = \"of-red\""}`},
	"DELETE /v1/segments/{name}":    {params: named("same-2")},
	"GET /v1/segments/{name}/count": {params: named("same"), dumped: true},

	"GET /v1/hooks":                {shows: true},
	"GET /v1/hooks/{name}":         {params: named("same"), shows: true},
	"PUT /v1/hooks/{name}":         {params: named("same"), body: `{"url":"https://a.example/of-red","enabled":false}`},
	"DELETE /v1/hooks/{name}":      {params: named("same")},
	"POST /v1/hooks/{name}/replay": {params: named("same"), body: `{"since":"0"}`},
	"POST /v1/hooks/{name}/test":   {params: named("same")},

	"GET /v1/audit":                          {noCursor: true},
	"GET /v1/sinks":                          {shows: true},
	"GET /v1/sinks/{sink}":                   {params: map[string]string{"sink": "clickhouse"}, shows: true},
	"PUT /v1/sinks/{sink}":                   {params: map[string]string{"sink": "clickhouse"}, body: `{"url":"https://of-red.example","enabled":false}`},
	"DELETE /v1/sinks/{sink}":                {params: map[string]string{"sink": "clickhouse"}},
	"GET /v1/sources":                        {shows: true},
	"GET /v1/sources/{source}":               {params: map[string]string{"source": "redisstream"}, shows: true},
	"PUT /v1/sources/{source}":               {params: map[string]string{"source": "redisstream"}, body: `{"urls":["redis://of-red.example"],"enabled":false}`},
	"DELETE /v1/sources/{source}":            {params: map[string]string{"source": "redisstream"}},
	"POST /v1/sources/{source}/pause":        {params: map[string]string{"source": "redisstream"}},
	"POST /v1/sources/{source}/resume":       {params: map[string]string{"source": "redisstream"}},
	"POST /v1/sources/{source}/resync":       {params: map[string]string{"source": "redisstream"}},
	"POST /v1/sources/{source}/preview":      {params: map[string]string{"source": "redisstream"}},
	"GET /v1/sources/{source}/quarantine":    {params: map[string]string{"source": "redisstream"}, dumped: true, noCursor: true},
	"DELETE /v1/sources/{source}/quarantine": {params: map[string]string{"source": "redisstream"}},

	"GET /v1/stats":              {query: "slowest=100"},
	"GET /v1/stats/history":      {query: "last=1m"},
	"GET /v1/warnings":           {},
	"GET /v1/topics":             {},
	"GET /v1/workers":            {},
	"GET /v1/connections":        {},
	"GET /v1/log":                {},
	"GET /v1/settings":           {},
	"GET /metrics":               {},
	"GET /varz":                  {},
	"GET /connz":                 {query: "auth=1&subs=detail"},
	"GET /subsz":                 {query: "subs=1"},
	"GET /v1/uploads/{app}/{id}": {params: map[string]string{"app": "blue", "id": "X"}, query: "expires=9999999999&signature=00"},
	"GET /debug/pprof/{name}":    {params: named("goroutine")},
	"GET /healthz":               {},
	"GET /v1/cluster":            {},
	"DELETE /v1/cluster/{node}":  {params: map[string]string{"node": "n1"}},
	"GET /readyz":                {},
	"GET /problems/{slug}":       {params: map[string]string{"slug": "not-found"}},
	"GET /openapi.yaml":          {},
	"GET /sdk/{file}":            {params: map[string]string{"file": "godwit.js"}},
	"GET /":                      {},

	"GET /push":                     {},
	"GET /wpush/{version}/{token}":  {params: map[string]string{"version": "v1", "token": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}},
	"POST /wpush/{version}/{token}": {params: map[string]string{"version": "v1", "token": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, body: "of-red"},
	"DELETE /m/{id}":                {params: id("AAAAAAAAAAAAAAAAAAAAAA")},

	"GET /v1/connect": {socket: true},
	"GET /v1/stream":  {endless: true},
	"GET /v1/poll":    {query: "wait=0s&group=north&objects=same"},
	"POST /v1/frames": {body: `{"session":"of-red","frames":[{"ack":{"ids":["same"]}}]}`},
}
