import type { Config } from '#internal/config/index.ts'
import { type RunningSink, startSink } from '#internal/dev/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { Directory, KeyRing } from '#internal/tenants/index.ts'
import type { ChoosePort } from './ports.ts'

/** What the receiver of callbacks takes. */
export interface DevSinkOptions {
  readonly config: Pick<Config<'dev'>, 'devSinkPort' | 'bindAddress'>
  readonly choosePort: ChoosePort
  readonly directory: Directory
  readonly keyRing: KeyRing
  readonly say: (line: string) => void
}

/** Opens the receiver of callbacks for the scope's life. To be called in the turn for ports. */
export async function openSink(options: DevSinkOptions, scope: Scope): Promise<RunningSink> {
  const { config, choosePort, directory, keyRing, say } = options
  const wanted = {
    name: 'receiver of deliveries',
    env: 'LATCHKEY_DEV_SINK_PORT',
    port: config.devSinkPort,
  }
  const port = await choosePort(wanted)
  return scope.open({
    name: 'dev sink',
    open: () =>
      startSink({
        ...{ port, bindAddress: config.bindAddress, keyRing, say },
        findTenant: (id) => directory.findTenantById(id),
      }),
    close: (sink) => sink.stop(),
  })
}
