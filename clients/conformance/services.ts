import { startTestApi, testApiKey } from '#test/support/api.ts'
import { TestServer } from '../typescript/src/testing/test-server.ts'
import type { ServiceName } from './cases.ts'
import type { ConformanceService } from './record-runner.ts'

/** Starts the real service. The caller closes it. */
export async function startService(name: Exclude<ServiceName, 'memory'>): Promise<ConformanceService> {
  const api = await startTestApi({ recordDurability: name })
  return { url: api.url, apiKey: testApiKey, close: () => api.close() }
}

/** Starts the test kit of the library for TypeScript. The caller closes it. */
export function startKit(): ConformanceService {
  const kit = new TestServer()
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: kit.fetch })
  const close = () => server.stop(true)
  return { url: `http://127.0.0.1:${server.port}`, apiKey: kit.apiKey, close }
}

/** Starts a test kit as a program that prints its address. The caller closes it. */
export async function startKitProgram(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<ConformanceService> {
  const child = Bun.spawn([...command], {
    env: { ...process.env, ...env },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const { value } = await child.stdout.getReader().read()
  const [url = '', apiKey = ''] = new TextDecoder().decode(value).trim().split(' ')
  const close = async () => {
    child.kill()
    await child.exited
  }
  return { url, apiKey, close }
}
