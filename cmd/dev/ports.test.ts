import { expect, test } from 'bun:test'
import { readConfig } from '#internal/config/index.ts'
import { fallbacksOf, portChooser } from './ports.ts'

test('what stands in for a default port is no other default port', () => {
  const read = readConfig({}, { process: 'dev' })
  if (read.kind === 'invalid') throw new Error(read.problems.join())
  const { apiPort, backofficePort, opsPort, devSinkPort } = read.config
  const defaults = [apiPort, backofficePort, opsPort, devSinkPort]
  const fallbacks = defaults.flatMap((port) => fallbacksOf(port))
  expect(fallbacks.filter((port) => defaults.includes(port) || port > 65_535)).toEqual([])
})

test('no port is chosen twice, although nobody listens on it yet', async () => {
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
