// Decrypt Web Push bodies with http_ece: each line of input is body, private key and auth secret in base64.
const crypto = require('node:crypto')
const ece = require('http_ece')

for (const line of require('node:fs').readFileSync(0, 'utf8').trim().split('\n')) {
  const [body, key, authSecret] = line.split(' ').map((field) => Buffer.from(field, 'base64'))
  const privateKey = crypto.createECDH('prime256v1')
  privateKey.setPrivateKey(key)
  console.log(ece.decrypt(body, { version: 'aes128gcm', privateKey, authSecret }).toString('base64'))
}
