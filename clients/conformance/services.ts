import { startTestApi, testApiKey } from '#test/support/api.ts'
import { TestServer } from '../typescript/src/testing/test-server.ts'
import type { ServiceName } from './cases.ts'
import type { ConformanceService } from './record-runner.ts'

/** Starts a service. The caller closes it. */
export async function startService(name: ServiceName): Promise<ConformanceService> {
  if (name !== 'memory') {
    const api = await startTestApi({ recordDurability: name })
    return { url: api.url, apiKey: testApiKey, close: () => api.close() }
  }
  const kit = new TestServer()
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: kit.fetch })
  const close = () => server.stop(true)
  return { url: `http://127.0.0.1:${server.port}`, apiKey: kit.apiKey, close }
}
