import { expect, test } from 'bun:test'
import { createServer } from 'node:net'
import { freePort, isPortFree } from './ports.ts'

test('a free port can be listened on, and is then no longer free', async () => {
  const port = await freePort()
  expect(await isPortFree(port)).toBe(true)
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  expect(await isPortFree(port)).toBe(false)
  expect(await isPortFree(port, '0.0.0.0')).toBe(false)
  await new Promise((resolve) => server.close(resolve))
  expect(await isPortFree(port)).toBe(true)
})
