import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { poll } from '#internal/dev/index.ts'
import { fencesOf } from '#test/support/documents/page.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { bringRelease, patience, readyPods, serviceUrl, stepMsMax, waitSeconds } from './node-release.ts'
import { publish, publishNode, standInEnv } from './node-stand-ins.ts'
import { type ProgramEnd, run, runProgram } from './program.ts'

/** Flags that name the image of this node. */
const ourImage = ['registry=localhost', 'repository=latchkey', 'tag=test'].map(
  (pair) => `--set=image.${pair}`,
)
/** The command that docs/operate/install.md shows. */
const command =
  fencesOf('docs/operate/install.md').find(({ marker }) => marker?.name === 'node-quickstart.nightly.test.ts')
    ?.text ?? 'false'
const standIn = scratchFolder()

beforeAll(() => bringRelease(), stepMsMax)

afterAll(async () => {
  rmSync(standIn, { recursive: true })
  await run(['kubectl', 'delete', 'namespace', 'demo', `--timeout=${waitSeconds}s`])
}, stepMsMax)

test(
  'config/quickstart: delivers a first webhook to a callback in a pod of an existing cluster',
  async () => {
    expectDelivered(await runProgram(['env', `LATCHKEY_URL=${serviceUrl}`, 'config/quickstart', ...ourImage]))
  },
  stepMsMax,
)

// Skipped on a foreign cluster, where config/quickstart would create another cluster.
if (process.env['LATCHKEY_NODE_URL'] === undefined)
  test(
    'config/quickstart: creates a missing cluster, delivers a webhook, and stops at a failed step',
    async () => {
      const image = 'ghcr.io/latchkey/latchkey:0.1.0'
      const server = publish('http://unused.invalid')
      const taken = await withStandIns()
      expect([taken.exitCode, taken.err]).toEqual([1, expect.stringContaining('port 8080 is taken')])
      expect(asked()).toEqual(['kind get clusters'])
      await server.stop(true)

      const running = withStandIns()
      const isMade = async () => existsSync(join(standIn, 'cluster')) || undefined
      const made = poll(isMade, { deadlineMs: 10_000 * patience })
      expect(await Promise.race([made, running])).toBe(true)
      const published = await publishNode()
      try {
        expectDelivered(await running)
        expect(asked()).toEqual([
          'kind get clusters',
          'kind create cluster --config config/kind.yaml',
          'kind export kubeconfig --name latchkey',
          `docker build --load --tag ${image} .`,
          `kind load docker-image --name latchkey ${image}`,
          `docker image inspect --format {{.Id}} ${image}`,
        ])
        const [api] = await readyPods('api')
        expect(api?.spec.containers[0]?.image).toBe(image)
        writeFileSync(join(standIn, 'broken'), '')
        const broken = await withStandIns()
        expect([broken.exitCode, broken.err]).toEqual([1, expect.stringContaining('failed to solve')])
        expect(asked()).toEqual([
          'kind get clusters',
          'kind export kubeconfig --name latchkey',
          `docker build --load --tag ${image} .`,
        ])
      } finally {
        await published.stop(true)
      }
    },
    stepMsMax,
  )

function expectDelivered({ exitCode, out, err }: ProgramEnd): void {
  expect([exitCode, err.includes('Delivered to the callback') ? out : err]).toEqual([
    0,
    expect.stringContaining('{"ok":true}'),
  ])
  const [, id, type] = /signature ok .*"payload":{"id":"(quickstart-\d+)","type":"([\w.]+)"/.exec(out) ?? []
  expect([id, type]).toEqual([expect.stringMatching(/^quickstart-\d+$/), 'order.paid'])
}

/** Runs the command with `node/docker-and-kind` in place of docker and kind. */
function withStandIns(): Promise<ProgramEnd> {
  const env = Object.entries(standInEnv(standIn)).map((pair) => pair.join('='))
  return runProgram(['env', ...env, 'bash', '-euc', command])
}

/** Returns and clears the recorded invocations of the stand-ins. */
function asked(): readonly string[] {
  const path = join(standIn, 'asked')
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
  writeFileSync(path, '')
  return lines
}
