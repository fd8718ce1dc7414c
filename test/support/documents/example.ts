import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort, removeStores } from '#internal/dev/index.ts'
import { root, startDevServer } from '../processes/dev-server.ts'
import { runServed } from '../processes/served-program.ts'
import { scratchFolder } from '../scratch.ts'

/** Output of the commands of an example's README, and that which the README shows, in order. */
export interface ExampleRun {
  readonly shown: readonly string[]
  readonly printed: readonly string[]
}

const portsShown = /127\.0\.0\.1:(\d+)/g
const apiPortShown = '8080'

/**
 * Starts the development server and then an example by its command, both on free ports, and runs the commands of the example's README.
 */
export async function runExample(name: string): Promise<ExampleRun> {
  const folder = scratchFolder()
  const dataDir = join(folder, 'data')
  const readme = await Bun.file(join(root, 'examples', name, 'README.md')).text()
  const steps = [...readme.matchAll(/<!-- example-test: curl -->\n```sh\n(.*?)```\n```text\n(.*?)```/gs)].map(
    ([, commands = '', printed = '']) => ({ commands, printed }),
  )
  const port = await freePort()
  const shownPort = [...readme.matchAll(portsShown)]
    .map(([, each]) => each)
    .find((each) => each !== apiPortShown)
  const manifests = await Bun.file(join(root, 'config/samples/dev/examples.yaml')).text()
  const demo = await Bun.file(join(root, 'config/samples/dev/demo.yaml')).text()
  await Bun.write(
    join(folder, 'tenants/tenants.yaml'),
    `${demo}\n---\n${manifests.replaceAll(`:${shownPort}/`, `:${port}/`)}`,
  )
  const env = { LATCHKEY_API_PORT: '0', LATCHKEY_BACKOFFICE_PORT: '0', LATCHKEY_OPS_PORT: '0' }
  const tenants = { LATCHKEY_DEV_SINK_PORT: '0', LATCHKEY_TENANTS_DIR: join(folder, 'tenants') }
  const dev = startDevServer({ dataDir, env: { ...env, ...tenants } })
  const printed: string[] = []
  try {
    const { api } = await dev.ready()
    const command = ['node', 'cmd/dev/setup.mjs', 'example', name]
    await runServed({ command, cwd: root, env: { LATCHKEY_URL: api }, port }, async () => {
      for (const { commands } of steps) {
        const own = commands
          .replaceAll(`127.0.0.1:${shownPort}`, `127.0.0.1:${port}`)
          .replaceAll(`http://127.0.0.1:${apiPortShown}`, api)
        printed.push(await Bun.$`sh -c ${own}`.text())
      }
    })
    return { shown: steps.map((step) => step.printed), printed }
  } finally {
    dev.signal('SIGTERM')
    await dev.exited
    await removeStores(dataDir)
    await rm(folder, { recursive: true, force: true })
  }
}
