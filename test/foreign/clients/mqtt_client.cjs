// An MQTT client, by mqtt.js: mqtt_client.cjs URL VERSION. It carries out the commands on its input, one JSON object a line, and prints what
// happens, one event a line. A message is acknowledged by the command ack.
const mqtt = require('mqtt')

const [url, version] = [process.argv[2], Number(process.argv[3])]
const tell = (event, fields = {}) => console.log(JSON.stringify({ event, ...fields }))
let client
const unacked = new Map()

function connect(c) {
  client = mqtt.connect(url, {
    clientId: c.id,
    username: c.user,
    password: c.password,
    clean: c.clean,
    protocolVersion: version,
    keepalive: 20,
    reconnectPeriod: 0,
    resubscribe: false,
    properties: version === 5 && !c.clean ? { sessionExpiryInterval: 3600 } : undefined,
    will: c.will ? { topic: c.will, payload: c.payload, qos: 1 } : undefined,
  })
  // mqtt.js acknowledges a message of QoS 1 once done was called.
  client.handleMessage = (p, done) => {
    tell('message', { topic: p.topic.toString(), payload: p.payload.toString(), qos: p.qos, retain: p.retain, ref: p.messageId ?? 0 })
    if (p.qos === 0) {
      done()
    } else {
      unacked.set(p.messageId, done)
    }
  }
  client.on('connect', (p) => tell('connected', { present: p.sessionPresent, code: p.reasonCode ?? p.returnCode }))
  // A code of MQTT is a number, one of the system a name.
  client.on('error', (e) => tell('failed', { code: Number(e.code) || 0, text: String(e) }))
  client.on('close', () => tell('closed'))
}

const doing = {
  connect,
  subscribe: (c) => client.subscribe(c.filter, { qos: c.qos }, (e, granted, packet) => tell('subscribed', { codes: packet ? packet.granted : [128], text: String(e) })),
  unsubscribe: (c) => client.unsubscribe(c.filter, () => tell('unsubscribed')),
  publish: (c) => client.publish(c.topic, c.payload, { qos: c.qos }, (e, p) => tell('published', { code: e?.code ?? p?.reasonCode ?? 0 })),
  ack: (c) => unacked.get(c.ref)(),
  disconnect: () => client.end(),
  drop: () => client.stream.destroy(),
}
require('node:readline')
  .createInterface({ input: process.stdin })
  .on('line', (line) => {
    const c = JSON.parse(line)
    doing[c.do](c)
  })
  .on('close', () => process.exit(0))
