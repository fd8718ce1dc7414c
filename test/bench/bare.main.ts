/**
 * Baseline for Latchkey: an Elysia server without tenants, checks or logs that makes one round trip to Redis per request.
 * Prints its port.
 */

import { createClient } from '@redis/client'
import { Elysia } from 'elysia'

const client = createClient({ url: process.env.BARE_REDIS_URL ?? '' })
await client.connect()
// Reads and writes as many keys and bytes as the acquire script for a new key, without its decisions.
const sameSize = `redis.call('GET', KEYS[3])
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], string.rep('m', 94))
redis.call('SET', KEYS[3], string.rep('e', 90), 'PX', 86460000)
redis.call('HINCRBY', KEYS[2], 'h498700', 280)
return {'locked', ARGV[1], 1795258166892693, 60000, 0}`
const setOnly = `redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', 60000)
return {'locked', ARGV[1], 1795258166892693, 60000, 0}`
// Reads and writes as many keys and bytes as the save script for a lock, without its decisions.
const saveSameSize = `redis.call('GET', KEYS[3])
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[3], string.rep('h', 68) .. ARGV[4], 'PX', 86400000)
redis.call('HINCRBY', KEYS[2], 'h498700', 60)
redis.call('SET', KEYS[1], string.rep('m', 94))
return {'saved', 1795258166892693, 1795258166892}`
const shas = {
  sameSize: await client.scriptLoad(sameSize),
  setOnly: await client.scriptLoad(setOnly),
  save: await client.scriptLoad(saveSameSize),
}
let count = 0

async function evaluate(sha: string, { scope, key }: { scope: string; key: string }) {
  count += 1
  const keys = ['{bare}:meta', '{bare}:side', `{bare}:r:${scope}\n${key}`]
  const args = [`${Date.now()}-${count}`, '86400000 60000 0 60000000 - -']
  const reply = (await client.evalSha(sha, { keys, arguments: args })) as [string, string, number, number]
  return { cached: false, locked: true, lockToken: reply[1], fence: reply[2], expiresInMs: reply[3] }
}

const app = new Elysia({ serve: { reusePort: false } })
  .post('/same-size', ({ body }) => evaluate(shas.sameSize, body as { scope: string; key: string }))
  .post('/set-only', ({ body }) => evaluate(shas.setOnly, body as { scope: string; key: string }))
  .put('/save-same-size', async ({ body }) => {
    const { scope, key, lockToken, ...record } = body as { scope: string; key: string; lockToken: string }
    const keys = ['{bare}:meta', '{bare}:side', `{bare}:r:${scope}\n${key}`]
    await client.evalSha(shas.save, { keys, arguments: [lockToken, '', '86400000', JSON.stringify(record)] })
    return { ok: true }
  })
  .post('/get', async ({ body }) => {
    const { key } = body as { scope: string; key: string }
    return new Response(await client.get(`{bare}:${key}`), {
      headers: { 'Content-Type': 'application/json' },
    })
  })
  .put('/set', async ({ body }) => {
    const { key, value } = body as { key: string; value: string }
    await client.set(`{bare}:${key}`, value)
    return { ok: true }
  })
  .listen({ port: 0, hostname: '127.0.0.1' })
process.stdout.write(`${app.server?.port}\n`)
