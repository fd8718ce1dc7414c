import { removeStores } from '#internal/dev/index.ts'
import { type DevServer, startDevServer } from '../processes/dev-server.ts'
import { scratchFolder } from '../scratch.ts'

/** Dev server with its dashboard, as for a user who tries Latchkey out. */
export interface RunningDashboard {
  /** For example `http://127.0.0.1:8081`. */
  readonly origin: string
  /** Token printed by the dev server, for signing in. */
  readonly token: string
  readonly api: string
  readonly sink: string
  output(): string
  close(): Promise<void>
}

/**
 * Starts a dev server on free ports and its own stores. The caller closes it. @throws with its output if it does not become ready
 */
export async function startDashboard(env: Readonly<Record<string, string>> = {}): Promise<RunningDashboard> {
  const dataDir = scratchFolder()
  const server: DevServer = startDevServer({
    dataDir,
    env: { ...freePorts, LATCHKEY_DEV_DEMO: 'false', ...env },
  })
  const close = async () => {
    // Ignores a server that did not start or was ended by its test: it has no deliveries to compare.
    await server.deliveries().catch(() => [])
    server.signal('SIGTERM')
    await server.exited
    await removeStores(dataDir)
  }
  try {
    const { api, sink } = await server.ready()
    const [, origin, token] =
      /(http:\/\/127\.0\.0\.1:\d+)\/sign-in#token=([\w-]{20,})/.exec(server.output()) ?? []
    if (!origin || !token) throw new Error(`no dashboard was printed:\n${server.output()}`)
    return { origin, token, api, sink, output: () => server.output(), close }
  } catch (error) {
    await close()
    throw error
  }
}

const freePorts = {
  LATCHKEY_API_PORT: '0',
  LATCHKEY_BACKOFFICE_PORT: '0',
  LATCHKEY_OPS_PORT: '0',
  LATCHKEY_DEV_SINK_PORT: '0',
}
