/**
 * The floor that Latchkey is compared with: an Elysia server with no tenant, no check and no log, that does one round trip
 * to Redis for a request. Prints its port.
 */
import { Elysia } from 'elysia'
import { createClient } from 'redis'

const client = createClient({ url: process.env.BARE_REDIS_URL ?? '' })
await client.connect()
// The least that could be called a lock, with keys, arguments and an answer of the acquire script's size.
const script = `redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', ARGV[2])
return {'locked', ARGV[1], 1795258166892693, tonumber(ARGV[3]), 0}`
const sha = await client.scriptLoad(script)
let count = 0

const app = new Elysia({ serve: { reusePort: false } })
  .post('/evalsha', async ({ body }) => {
    const { scope, key } = body as { scope: string; key: string }
    count += 1
    const keys = ['{bare}:meta', '{bare}:side', `{bare}:r:${scope}\n${key}`]
    const args = [`${Date.now()}-${count}`, '86400000', '60000', '', '', '0', '60000000', '', '']
    const reply = (await client.evalSha(sha, { keys, arguments: args })) as [string, string, number, number]
    return { cached: false, locked: true, lockToken: reply[1], fence: reply[2], expiresInMs: reply[3] }
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
