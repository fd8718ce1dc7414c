import { expect, test } from 'bun:test'
import { createServer } from 'node:net'
import { readConfig } from '#internal/config/index.ts'
import { fallbacksOf, freePort, isPortFree, portChooser } from './ports.ts'

test('port chooser: the fallback ports of a default port are not default ports of other processes', () => {
  const read = readConfig({}, { process: 'dev' })
  if (read.kind === 'invalid') throw new Error(read.problems.join())
  const { apiPort, backofficePort, opsPort, devSinkPort } = read.config
  const defaults = [apiPort, backofficePort, opsPort, devSinkPort]
  const fallbacks = defaults.flatMap((port) => fallbacksOf(port))
  expect(fallbacks.filter((port) => defaults.includes(port) || port > 65_535)).toEqual([])
})

test('port chooser: never chooses the same port twice, even before a server listens on the port', async () => {
  const taken = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() })
  try {
    const choose = portChooser({ env: {}, say: () => undefined })
    const wanted = { name: 'API', env: 'LATCHKEY_API_PORT', port: taken.port ?? 0 }
    const chosen = [await choose(wanted), await choose(wanted), await choose(wanted)]
    expect(new Set([...chosen, taken.port]).size).toBe(4)
    const anyPort = { ...wanted, port: 0 }
    expect([await choose(anyPort), await choose(anyPort)]).toEqual([0, 0])
  } finally {
    await taken.stop(true)
  }
})

test('free port: can be listened on, and is no longer free afterwards', async () => {
  const port = await freePort()
  expect(await isPortFree(port)).toBe(true)
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  expect(await isPortFree(port)).toBe(false)
  expect(await isPortFree(port, '0.0.0.0')).toBe(false)
  await new Promise((resolve) => server.close(resolve))
  expect(await isPortFree(port)).toBe(true)
})
