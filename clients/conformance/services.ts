import { startTestApi, testApiKey } from '#test/support/api.ts'
import { TestServer } from '../typescript/src/testing/test-server.ts'

/** Services that cases of the record API run on: the real one with records in Redis or in Postgres, and the test kit's in memory. */
export const serviceNames = ['redis', 'postgres', 'memory'] as const

/** Running service. */
export interface ConformanceService {
  readonly url: string
  readonly apiKey: string
  close(): Promise<void>
}

/** Starts the real service. The caller closes it. */
export async function startService(
  name: Exclude<(typeof serviceNames)[number], 'memory'>,
): Promise<ConformanceService> {
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
