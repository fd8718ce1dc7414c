import { createClient, RESP_TYPES } from '@redis/client'

/** Direct access of tests to Redis. */
export interface RawRedis {
  get(key: string): Promise<string | null>
  getBuffer(key: string): Promise<Buffer | null>
  set(key: string, value: string): Promise<unknown>
  del(...keys: string[]): Promise<unknown>
  exists(key: string): Promise<boolean>
  keys(pattern: string): Promise<string[]>
  pttl(key: string): Promise<number>
  hgetall(key: string): Promise<Record<string, string>>
  rpush(key: string, value: string): Promise<unknown>
  send(command: string, args: readonly string[]): Promise<unknown>
  close(): void
}

/** Connects to one server. Avoids Bun's client, in which a command never returned once. */
export async function openRawRedis(url: string): Promise<RawRedis> {
  const client = createClient({ url, socket: { reconnectStrategy: false, connectTimeout: 5000 } })
  // Ignores errors, since the connection may break when a test stops its server.
  client.on('error', () => undefined)
  await client.connect()
  const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer })
  return {
    get: (key) => client.get(key),
    getBuffer: (key) => bytes.get(key),
    set: (key, value) => client.set(key, value),
    del: (...keys) => client.del(keys),
    exists: async (key) => (await client.exists(key)) === 1,
    keys: (pattern) => client.keys(pattern),
    pttl: (key) => client.pTTL(key),
    hgetall: async (key) => ({ ...(await client.hGetAll(key)) }),
    rpush: (key, value) => client.rPush(key, value),
    send: (command, args) => client.sendCommand([command, ...args]),
    close: () => {
      if (client.isOpen) client.destroy()
    },
  }
}
