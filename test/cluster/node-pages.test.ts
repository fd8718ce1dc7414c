import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { copyFileSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parse, stringify } from 'yaml'
import { poll } from '#internal/dev/index.ts'
import { fencesOf } from '#test/support/documents/page.ts'
import { nightlyTest } from '#test/support/nightly.ts'
import { compiledProgram } from '#test/support/processes/compiled-program.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { presetFolder, tool } from './chart.ts'
import {
  makeRestrictedNamespace,
  patience,
  processes,
  readyPods,
  releaseNamespace,
  removeRelease,
  stepMsMax,
  waitSeconds,
} from './node-release.ts'
import { publishNode, standInEnv } from './node-stand-ins.ts'
import { run, runProgram } from './program.ts'

const root = resolve(import.meta.dir, '../..')
/** Names of the blocks of this test, as pages mark them. */
const here = 'node-pages.test.ts'
/** Folder in which the commands of the pages run, with the repository's files. */
const clone = scratchFolder()
let env: Readonly<Record<string, string>>
let api: Awaited<ReturnType<typeof publishNode>>

const commandsOf = (page: string) =>
  fencesOf(page).filter(({ language, marker }) => language === 'sh' && marker?.name === here)

/** Runs a script in the clone; ends what it leaves in the background. Returns its output. @throws if a command fails */
async function shell(script: string): Promise<string> {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  const whole = `cd '${clone}'\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n${script}`
  const { exitCode, out, err } = await runProgram([
    'env',
    '--unset=LATCHKEY_CLUSTER_STATE',
    ...variables,
    'bash',
    '-euo',
    'pipefail',
    '-c',
    whole,
  ])
  if (exitCode !== 0) throw new Error(`exit code ${exitCode}:\n${out}${err}`)
  return out
}

// Skipped on a foreign cluster, where the commands would create another cluster.
if (process.env['LATCHKEY_NODE_URL'] === undefined)
  describe('commands of pages', () => {
    beforeAll(async () => {
      env = { ...standInEnv(clone), REGISTRY: 'localhost', XDG_CONFIG_HOME: clone }
      for (const name of ['charts', 'config', 'crds', 'Dockerfile'])
        symlinkSync(join(root, name), join(clone, name))
      symlinkSync(compiledProgram(), join(clone, 'bin/latchkey'))
      if (Bun.which('helm') === null) symlinkSync(tool('helm'), join(clone, 'bin/helm'))
      copyFileSync(process.env['KUBECONFIG'] ?? '', join(clone, 'kubeconfig'))
      await removeRelease()
      api = await publishNode()
    }, stepMsMax)

    afterAll(async () => {
      await api?.stop(true)
      await removeRelease()
      const bindings = ['clusterrolebinding/ada', 'namespace/demo', 'namespace/bakery']
      await run(['kubectl', 'delete', ...bindings, '--ignore-not-found', `--timeout=${waitSeconds}s`])
      const left = ['serviceaccount/ada', 'serviceaccount/support', 'secret/latchkey-stores']
      await run(['kubectl', 'delete', '-n', releaseNamespace, ...left, '--ignore-not-found'])
      await run(['kubectl', 'delete', 'rolebinding/support', '-n', 'shops', '--ignore-not-found'])
      rmSync(clone, { recursive: true })
    }, stepMsMax)

    test(
      'tutorials/cluster.md: after the commands, an empty cluster has delivered one event and returned one event by a pull',
      async () => {
        const blocks = commandsOf('docs/tutorials/cluster.md')
        const parts = blocks.map(({ text }, index) => `printf '\\n=== %s\\n' ${index}\n${text}`)
        const sections = (await shell(parts.join('')))
          .split(/^=== \d+\n/m)
          .map((part) => part.trim())
          .slice(1)
        expect(sections.length).toBe(blocks.length)
        const out = (part: string) => sections[blocks.findIndex(({ text }) => text.includes(part))] ?? ''
        expect(out('kubectl get pods').match(/ 1\/1 +Running/g)?.length).toBe(6)
        expect(out('.status.urls')).toEndWith('\nhttp://localhost:8080/v1/t/demo/webhooks/generic')
        expect(out('signature=')).toBe('{"ok":true}')
        expect(out("grep 'order-1'")).toMatch(
          /^signature ok {"id":"evt_\w+","provider":"generic","providerRawType":"order.paid","type":"order.paid",/m,
        )
        const [simulated = '', made = '', pulled = ''] = out('/pull').split('\n')
        expect(JSON.parse(simulated)).toMatchObject({ ok: true })
        expect(JSON.parse(made)).toBeObject()
        expect(JSON.parse(pulled)).toMatchObject({ events: [{ type: 'order.paid' }] })
        expect(out('create token ada').split('\n').at(-1)).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/)
        expect(await readyPods('api')).toHaveLength(1)
      },
      2 * stepMsMax,
    )

    test('tutorials/cluster.md: shows the Tenant of config/samples/quickstart.yaml', () => {
      const shown = fencesOf('docs/tutorials/cluster.md').find(({ language }) => language === 'yaml')
      expect(readFileSync(join(root, 'config/samples/quickstart.yaml'), 'utf8')).toContain(shown?.text ?? '?')
    })

    test(
      'operating.md and dashboard.md: the commands log in to the back office and print a token',
      async () => {
        // Uses the release of the tutorial, which still exists here: the last command of the tutorial deletes only the record of the
        // cluster.
        await shell(
          'kubectl create serviceaccount ada -n latchkey --dry-run=client -o yaml | kubectl apply -f -',
        )
        const [operating] = commandsOf('docs/operate/operating.md')
        const [forward = '', login = ''] = operating?.text.trim().split('\n') ?? []
        const waited =
          'for i in $(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/8081) 2>/dev/null && break; sleep 0.1; done'
        await shell([forward, waited, login, 'latchkey settings list'].join('\n'))
        await makeRestrictedNamespace('shops')
        const [dashboard] = commandsOf('docs/operate/dashboard.md')
        expect((await shell(dashboard?.text ?? 'false')).trim().split('\n').at(-1)).toMatch(
          /^[\w-]+\.[\w-]+\.[\w-]+$/,
        )
      },
      stepMsMax,
    )

    test(
      'upgrading.md: the commands upgrade the release, check whether a rollback is safe, and roll the release back',
      async () => {
        const preset = parse(readFileSync(join(presetFolder, 'kind.yaml'), 'utf8')) as object
        writeFileSync(
          join(clone, 'mine.yaml'),
          stringify({ ...preset, podLabels: { changed: 'yes' } }, { version: '1.1' }),
        )
        const [upgrade, rollback] = commandsOf('docs/operate/upgrading.md')
        expect(await shell(upgrade?.text ?? 'false')).toContain('demo')
        const labels = async () =>
          (await run(['kubectl', 'get', 'pods', '-n', releaseNamespace, '-l', 'changed=yes', '-o', 'name']))
            .length > 0
        expect(await labels()).toBe(true)
        await shell(rollback?.text ?? 'false')
        const gone = await poll(async () => ((await labels()) ? undefined : true), {
          deadlineMs: 60_000 * patience,
        })
        expect(gone).toBe(true)
      },
      2 * stepMsMax,
    )

    nightlyTest(
      'install.md: the commands install the preset small on existing stores, and helm test succeeds',
      async () => {
        await removeRelease()
        const { extraObjects } = parse(readFileSync(join(presetFolder, 'kind.yaml'), 'utf8')) as {
          extraObjects: object[]
        }
        const stores = extraObjects.map((each) => stringify(each, { version: '1.1' })).join('---\n')
        try {
          await run(['kubectl', 'apply', '-n', releaseNamespace, '-f', '-'], stores)
          const image = ['images', 'tag', '--force', 'localhost/latchkey:test', 'localhost/latchkey:0.1.0']
          await run([
            'ctr',
            '--address',
            `${env['NODE_STATE']}/containerd.sock`,
            '--namespace',
            'k8s.io',
            ...image,
          ])
          const [install] = commandsOf('docs/operate/install.md')
          const script = (install?.text ?? 'false').replace(/^kubectl create namespace latchkey\n/, (line) =>
            // Keeps the namespace if it exists, since it has the volumes of the stores.
            line.replace('\n', ' || kubectl get namespace latchkey\n'),
          )
          const urls = [
            "DATABASE_URL='postgres://latchkey:latchkey@latchkey-postgres:5432/latchkey'",
            "REDIS_URL='redis://:latchkey@latchkey-redis:6379'",
          ]
          expect(await shell(`${urls.join('\n')}\n${script}`)).toContain('Phase:          Succeeded')
          for (const process of processes) expect(await readyPods(process)).toHaveLength(1)
        } finally {
          await removeRelease()
          await run(
            ['kubectl', 'delete', '-n', releaseNamespace, '-f', '-', `--timeout=${waitSeconds}s`],
            stores,
          )
        }
      },
      2 * stepMsMax,
    )
  })
