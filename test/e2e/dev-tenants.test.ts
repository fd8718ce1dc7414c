import { afterEach, expect, test } from 'bun:test'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '#internal/base/index.ts'
import { poll, removeStores } from '#internal/dev/index.ts'
import { createPool, openRedis } from '#internal/storage/index.ts'
import { Directory, directoryChannel } from '#internal/tenants/index.ts'
import { tenantYaml } from '#test/support/api.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { type DevServer, startDevServer } from '#test/support/processes/dev-server.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { testStores } from '#test/support/stores.ts'

const startsMs = 120_000
const folders: string[] = []
const servers: DevServer[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.signal('SIGTERM')
    await server.exited
  }
  for (const folder of folders.splice(0)) await removeStores(folder)
})

interface Place {
  readonly dataDir: string
  write(file: string, yaml: string): void
  start(env?: Readonly<Record<string, string>>): DevServer
}

/** Starts a dev server with a folder of manifests and a data folder. */
function place(): Place {
  const dataDir = scratchFolder()
  folders.push(dataDir)
  const tenantsDir = join(dataDir, 'manifests')
  mkdirSync(tenantsDir)
  const ports = { LATCHKEY_API_PORT: '0', LATCHKEY_OPS_PORT: '0', LATCHKEY_TENANTS_DIR: tenantsDir }
  return {
    dataDir,
    write: (file, yaml) => writeFileSync(join(tenantsDir, file), yaml),
    start(env = {}) {
      const server = startDevServer({ dataDir, env: { ...ports, ...env } })
      servers.push(server)
      return server
    },
  }
}

const keyOf = (name: string) => `lk_test_${name}_0123456789abcdef0123456789`
const welcomeOf = (server: DevServer) => server.output().slice(server.output().lastIndexOf('  API  '))

test(
  'dev tenants: the welcome text lists active tenants and problems, including tenants whose file became invalid',
  async () => {
    const { write, start } = place()
    write('one.yaml', tenantYaml('one', keyOf('one')))
    write('two.yaml', tenantYaml('two', keyOf('two')))
    const first = start()
    await first.ready()
    expect(welcomeOf(first)).toMatch(/Tenants {2}shops\/one, shops\/two {3}\(/)
    expect(welcomeOf(first)).not.toContain('!')
    first.signal('SIGTERM')
    await first.exited
    write('two.yaml', tenantYaml('two', keyOf('two')).replace('slug: two', 'slug: [two'))
    write('three.yaml', tenantYaml('three', keyOf('three')).replace('name: three-key}}]', 'name: absent}}]'))
    const second = start()
    await second.ready()
    expect(welcomeOf(second)).toMatch(/Tenants {2}shops\/one, shops\/three, shops\/two {3}\(/)
    expect(welcomeOf(second)).toMatch(/! \S+two\.yaml:\d+ is not YAML/)
    expect(welcomeOf(second)).toContain('! shops/three: FileBroken, ')
  },
  startsMs,
)

test(
  'dev tenants: the tenant directory of another process is notified of a change before its next poll',
  async () => {
    const database = await createMigratedDatabase()
    const { redisUrl } = await testStores()
    const { write, start } = place()
    write('one.yaml', tenantYaml('one', keyOf('one')))
    const quiet = () => undefined
    const bounds = { connectionsMax: 1, queryTimeoutMs: 5000, connectTimeoutMs: 5000 }
    const pool = createPool({ url: database.url, applicationName: 'another process', ...bounds })
    const redis = openRedis({ url: redisUrl, onError: quiet })
    const directory = new Directory({
      pool,
      clock: systemClock,
      log: { info: quiet, warn: quiet, error: quiet },
      pollMs: 3_600_000,
    })
    try {
      await directory.start()
      const listens = await poll(
        () =>
          redis
            .subscribe(directoryChannel, () => directory.notify())
            .then(
              () => true,
              () => undefined,
            ),
        { deadlineMs: 10_000 },
      )
      expect(listens).toBe(true)
      await start({ LATCHKEY_DATABASE_URL: database.url, LATCHKEY_REDIS_URL: redisUrl }).ready()
      const has = (name: string) => poll(() => directory.findTenantBySlug(name)?.name, { deadlineMs: 10_000 })
      expect(await has('one')).toBe('one')
      write('two.yaml', tenantYaml('two', keyOf('two')))
      expect(await has('two')).toBe('two')
    } finally {
      for (const server of servers.splice(0)) {
        server.signal('SIGTERM')
        await server.exited
      }
      await directory.stop()
      await redis.close()
      await pool.end()
      await database.drop()
    }
  },
  startsMs,
)
