package config

import "godwit.dev/godwit/internal/compat/nammayatri"

// ListenerSettings are the listeners for clients.
type ListenerSettings struct {
	HTTPAddr string `key:"http_addr" default:":8080" group:"Listeners" help:"address of the HTTP listener (API, WebSocket, SSE, long-poll), or off"`
	GRPCAddr string `key:"grpc_addr" default:":50051" group:"Listeners" help:"address of the gRPC listener, or off"`
	MQTTAddr string `key:"mqtt_addr" default:"off" group:"Listeners" help:"address of the listener for MQTT clients, or off"`
	NATSAddr string `key:"nats_addr" default:"off" group:"Listeners" help:"address of the listener for NATS clients, or off"`
	QUICAddr string `key:"quic_addr" default:"off" group:"Listeners" help:"address of the UDP listener for QUIC (HTTP/3, and sessions over WebTransport that outlive a change of networks), or off; needs tls_cert. Answers over HTTPS then name its port (Alt-Svc)"`
}

// BusSettings are the settings of an external NATS.
type BusSettings struct {
	NATS            string `key:"nats" default:"" group:"Message bus" help:"URL of a NATS server or cluster that carries topics and requests and, with postgres, joins the nodes, like tls://nats.example.org:4222, several with commas between; empty: the one within the process"`
	NATSCredentials string `key:"nats_credentials" default:"" group:"Message bus" help:"file with the credentials of a user of that NATS (.creds)"`
	NATSCA          string `key:"nats_ca" default:"" group:"Message bus" help:"PEM file with the authorities that sign the certificate of that NATS; empty: the system's"`
}

// ClusterSettings are the settings of several nodes.
type ClusterSettings struct {
	Postgres          string `key:"postgres" default:"" group:"Several nodes" secret:"url" help:"URL of the PostgreSQL database in which several nodes share what must not be lost, like postgres://godwit@db.example.org/godwit; with a password in it, set it by the file or the environment, not by the flag; empty: SQLite in data"`
	Node              string `key:"node" default:"" group:"Several nodes" help:"name of this node, unlike that of any other; empty: the machine's name"`
	ClusterAddr       string `key:"cluster_addr" default:"off" group:"Several nodes" help:"address of the listener for other nodes, like 10.0.0.1:6222, or off: there is none, and nats joins the nodes if it is set; needs postgres"`
	ClusterPeers      string `key:"cluster_peers" default:"" group:"Several nodes" help:"addresses of other nodes, like 10.0.0.2:6222, several with commas between; this node may be among them, and a node that is not is found through those that are"`
	ClusterSecretFile string `key:"cluster_secret_file" default:"" group:"Several nodes" help:"file with the secret by which nodes know each other, 16 characters or more, the same on all"`
	ClusterTLSCert    string `key:"cluster_tls_cert" default:"" group:"Several nodes" help:"PEM file with the certificate that this node shows to others, for the name or address by which they know it; read again when it changes"`
	ClusterTLSKey     string `key:"cluster_tls_key" default:"" group:"Several nodes" help:"PEM file with the key of cluster_tls_cert"`
	ClusterTLSCA      string `key:"cluster_tls_ca" default:"" group:"Several nodes" help:"PEM file with the authorities that sign the certificates of all nodes"`
}

// CompatSettings are the settings for replacing another service.
type CompatSettings struct {
	Compat              string   `key:"compat" default:"off" group:"Standing in for another service" oneof:"off,nammayatri" help:"a notification service that this one stands in for beside its own API: nammayatri (nammayatri's notification-service, over Redis streams), or off"`
	Redis               string   `key:"redis" default:"" group:"Standing in for another service" secret:"url" help:"URL of the Redis with those streams, like redis://10.0.0.1:6379 or rediss://redis.example.org:6380; several of a cluster with commas between; with a password in it, set it by the file or the environment, not by the flag"`
	MaxShards           int      `key:"max_shards" default:"128" min:"1" max:"16384" group:"Standing in for another service" help:"over how many shards publishers spread those streams; a power of two"`
	Force               bool     `key:"force" default:"false" group:"Standing in for another service" help:"serve although max_shards is no power of two: publishers and the service that compat stands in for then use different streams for some clients, and both are read"`
	AuthURL             string   `key:"auth_url" default:"" group:"Standing in for another service" help:"URL that is asked whose a client's token is; compat_config can name one for each kind of clients"`
	AuthAPIKey          string   `key:"auth_api_key" default:"" group:"Standing in for another service" secret:"text" help:"key that is shown to auth_url; set it by the file or the environment, not by the flag"`
	DriverAPIURL        string   `key:"driver_api_url" default:"" group:"Standing in for another service" help:"URL of the driver API, which gets what drivers answer to offers; empty: such answers fail"`
	CompatHTTPAddr      string   `key:"compat_http_addr" default:":9091" group:"Standing in for another service" help:"address of the listener for /health and /metrics as that service has them, or off"`
	CompatStreamTimeout Duration `key:"compat_stream_timeout" default:"0s" min:"0s" max:"24h" group:"Standing in for another service" help:"after how long a stream ends, as that service ends them; 0s: never"`
	CompatRetryDelay    Duration `key:"compat_retry_delay" default:"10s" min:"100ms" max:"5m" group:"Standing in for another service" help:"what a client does not acknowledge is sent again after this, then after twice that, up to 5 minutes"`
	CompatConfig        string   `key:"compat_config" default:"" group:"Standing in for another service" help:"Dhall, JSON or TOML file with that service's own settings by their names, which hold where nothing else is set"`

	CompatDev bool // like the other service's environment variable DEV: a client's token is its id

	origins    map[string]nammayatri.Origin // of compat_config
	passedOver []string                     // of compat_config
}

// PublicSettings are the public addresses of the server.
type PublicSettings struct {
	PublicURL   string `key:"public_url" default:"" group:"Listeners" help:"where people outside reach this server, like https://push.example.org; links in chats lead there so that clicks are counted; empty: such links are sent as they are"`
	GatewayURL  string `key:"gateway_url" default:"" group:"Listeners" help:"where people outside reach the gateway (/gw/), like https://gw.example.org: it is served for that host alone, and nothing else is, so that a worker's page has no power over the web console; the best host is one of another site than public_url's; empty: the gateway shares the host, and browsers run no script of its answers"`
	GatewayAddr string `key:"gateway_addr" default:"off" group:"Listeners" help:"address of a listener that serves the gateway (/gw/) alone, which http_addr then does not, or off"`
	GRPCEngine  string `key:"grpc_engine" default:"reactor" group:"Listeners" oneof:"reactor,std" help:"what serves gRPC: reactor (little memory per connection) or std (grpc-go)"`
}

// TLSSettings are the certificates of listeners.
type TLSSettings struct {
	TLSCert     string `key:"tls_cert" default:"" group:"TLS" help:"PEM file with the certificate chain of all listeners; read again when it changes"`
	TLSKey      string `key:"tls_key" default:"" group:"TLS" help:"PEM file with the key of tls_cert"`
	TLSClientCA string `key:"tls_client_ca" default:"" group:"TLS" help:"PEM file with the authorities that sign client certificates; a certificate is optional for clients but must verify"`
}

// DevSettings make a development server.
type DevSettings struct {
	Dev           bool `key:"dev" default:"false" group:"Development" help:"development server: app demo, API key dev, clients need no token; binds loopback only"`
	DevAnyAddress bool `key:"dev_any_address" default:"false" group:"Development" help:"let a development server bind addresses others can reach"`
}

// SignInSettings configure the sign-in of people to the web page.
type SignInSettings struct {
	OIDCIssuer       string `key:"oidc_issuer" default:"" group:"Web page" help:"URL of a provider of OpenID Connect with which people may sign in to the web page, like https://login.example.org/realms/staff; needs oidc_client_id, oidc_allow and public_url; empty: they sign in with keys alone"`
	OIDCClientID     string `key:"oidc_client_id" default:"" group:"Web page" help:"what this server is called at oidc_issuer"`
	OIDCClientSecret string `key:"oidc_client_secret" default:"" group:"Web page" secret:"text" help:"secret of oidc_client_id; set it by the file or the environment, not by the flag; empty: the client has none"`
	OIDCScopes       string `key:"oidc_scopes" default:"openid email profile" group:"Web page" help:"what is asked for of oidc_issuer, with spaces between; some providers tell groups only if groups is among them"`
	OIDCAllow        string `key:"oidc_allow" default:"" group:"Web page" help:"who of oidc_issuer's people may do what, with semicolons between: role, app, and a claim with its value, like view shop groups=support; admin shop email=anna@example.org"`
}

// BootstrapSettings create an app at the first start.
type BootstrapSettings struct {
	BootstrapApp     string `key:"bootstrap_app" default:"" group:"First start" help:"app to create at start if it does not exist"`
	BootstrapKeyFile string `key:"bootstrap_key_file" default:"" group:"First start" help:"file with the admin API key of bootstrap_app, 16 characters or more; made if it is missing"`
}

// StorageSettings set the time and the size of stored data.
type StorageSettings struct {
	Retain       Duration `key:"retain" default:"7d" min:"1m" max:"3650d" group:"Storage" help:"how long settled notifications stay in status and history"`
	Attempts     bool     `key:"attempts" default:"true" group:"Storage" help:"keep what was tried to bring notifications to connections: when, to which device, what it said"`
	EventsRetain Duration `key:"events_retain" default:"7d" min:"1m" max:"3650d" group:"Storage" help:"how long events can be read again with since"`
	EraseWithin  Duration `key:"erase_within" default:"15m" min:"1s" max:"50m" group:"Storage" help:"how long after a recipient was erased or an endpoint deleted what they left in files is overwritten; what is erased in this time shares one pass over the files"`
	MinFree      Size     `key:"min_free" default:"256MB" min:"1MB" max:"1TB" group:"Storage" help:"publishes are refused when the file system has less free space than this"`
	Ballast      Size     `key:"ballast" default:"0" min:"0" max:"1GB" group:"Storage" help:"space kept in a file that is given up when the disk is full, so that acknowledgements and clean-up go on; 0: a quarter of min_free, at most 32MB"`
}

// UploadSettings say where the gateway keeps bodies that are too large for a request.
type UploadSettings struct {
	Uploads       string `key:"uploads" default:"" group:"Uploads" help:"where bodies of more than 1 MiB lie that gateway services with upload: store accept: a folder, or the URL of a bucket of an S3-compatible store, like https://s3.eu-north-1.amazonaws.com/bucket; empty: the folder uploads in data"`
	UploadsDays   int    `key:"uploads_days" default:"1" min:"1" max:"365" group:"Uploads" help:"days after which they are deleted"`
	UploadsMax    Size   `key:"uploads_max" default:"1GB" min:"1MB" max:"5GB" group:"Uploads" help:"most bytes of one of them"`
	UploadsSpace  Size   `key:"uploads_space" default:"10GB" min:"1MB" max:"1000TB" group:"Uploads" help:"most bytes of all of them in a folder; further ones get 503"`
	UploadsKeyID  string `key:"uploads_key_id" default:"" group:"Uploads" help:"id of the access key for the bucket"`
	UploadsSecret string `key:"uploads_secret" default:"" group:"Uploads" secret:"text" help:"secret of uploads_key_id; set it by the file or the environment, not by the flag"`
	UploadsRegion string `key:"uploads_region" default:"us-east-1" group:"Uploads" help:"region of the bucket"`
}

// CapacitySettings limit the resources of sessions and connections.
type CapacitySettings struct {
	MaxPending     int      `key:"max_pending" default:"1000" min:"1" max:"100000" group:"Limits" help:"most unsettled notifications of one recipient; further publishes to it get 429"`
	Window         int      `key:"window" default:"64" min:"1" max:"1024" group:"Sessions" help:"unacknowledged notifications in flight on a session whose hello names no window"`
	Heartbeat      Duration `key:"heartbeat" default:"30s" min:"5s" max:"24h" group:"Sessions" help:"heartbeat of a session whose hello names none; silent for two heartbeats, it is closed"`
	QueueBytes     Size     `key:"queue_bytes" default:"256KB" min:"4KB" max:"64MB" group:"Limits" help:"most bytes queued for one session; an empty queue takes one message of any size"`
	QueueTotal     Size     `key:"queue_total" default:"0" min:"0" max:"1TB" group:"Limits" help:"most bytes queued for all sessions together; 0: a quarter of the memory that the process may use (memory_limit, its control groups, the machine)"`
	MaxConnections int      `key:"max_connections" default:"0" min:"0" max:"10000000" group:"Limits" help:"most connections open at once; 0: what the file limit allows"`
}

// ObjectSettings are those of objects.
type ObjectSettings struct {
	ObjectsClientRetention Duration `key:"objects_client_retention" default:"60d" min:"1m" max:"3650d" group:"Objects" help:"registrations of a device that stays away for longer are dropped; it registers again when it comes back"`
	ObjectsBatchMax        Duration `key:"objects_batch_max" default:"250ms" min:"0s" max:"1m" group:"Objects" help:"most time by which changes of objects are held back, so that several of one become one; only while they queue, and tuned to the load; 0s: never"`
}

// LimitSettings are limits by address and key.
type LimitSettings struct {
	MaxPerAddress int  `key:"max_connections_per_address" default:"0" min:"0" max:"10000000" group:"Limits" help:"most connections open at once from one address; 0: a quarter of max_connections, with compat all. Behind a proxy on another machine all come from its address"`
	LimitConnects Rate `key:"limit_connects" default:"50/s" group:"Limits" help:"new connections from one address, or off; with compat, off unless it is set"`
	LimitHellos   Rate `key:"limit_hellos" default:"50/s" group:"Limits" help:"hellos (session starts), and beside them acknowledgements by token, from one address, or off"`
	LimitSignups  Rate `key:"limit_signups" default:"1/s" group:"Limits" help:"push registrations without a token from one address, or off"`
	LimitPublish  Rate `key:"limit_publish" default:"off" group:"Limits" help:"publishes with one API key, or off"`
	LimitLoopback bool `key:"limit_loopback" default:"false" group:"Limits" help:"apply the limits per address to loopback too"`
}

// OperationSettings are settings for the server's operators.
type OperationSettings struct {
	AllowTargets     List     `key:"allow_targets" default:"" group:"Safety" help:"where hooks, webhooks, sinks, sources, base_url of channels, sign-in, JWKS and introspection may lead although it is private: networks, addresses and hosts, like 10.0.0.0/8, hooks.internal:8443; those may also have plain http"`
	AllowPrivateURLs bool     `key:"allow_private_urls" default:"false" group:"Safety" help:"let all URLs lead anywhere, also those that visitors give; for tests alone: allow_targets is for servers"`
	Grace            Duration `key:"grace" default:"10s" min:"1s" max:"10m" group:"Operation" help:"most time a stop may take: goodbyes, answers under way, flush"`
	LogLevel         string   `key:"log_level" default:"info" group:"Operation" oneof:"debug,info,warn,error" help:"least level that is logged"`
	LogFormat        string   `key:"log_format" default:"auto" group:"Operation" oneof:"auto,text,json" help:"log lines as text or json; auto: text on a terminal"`
	OTLP             string   `key:"otlp" default:"" group:"Operation" help:"URL of an OpenTelemetry collector that gets traces and metrics over OTLP on HTTP, like http://localhost:4318; empty: the variable OTEL_EXPORTER_OTLP_ENDPOINT, or neither"`
}

// TuningSettings tune the process.
type TuningSettings struct {
	MemoryLimit   Size   `key:"memory_limit" default:"0" min:"0" max:"16TB" group:"Tuning" help:"soft memory limit of the process; 0: GOMEMLIMIT or none"`
	GCPercent     int    `key:"gc_percent" default:"0" min:"-1" max:"10000" group:"Tuning" help:"garbage collector target in percent; 0: GOGC or the default; -1: collect only near memory_limit"`
	ReactorDriver string `key:"reactor_driver" default:"auto" group:"Tuning" oneof:"auto,epoll,goroutine" help:"how connections are watched; auto: epoll where there is one"`
	ReactorLoops  int    `key:"reactor_loops" default:"0" min:"0" max:"1024" group:"Tuning" help:"event loops; 0: one per CPU"`
}
