import { afterAll, beforeAll, describe, test } from 'bun:test'
import pg from 'pg'
import { createTestDatabase, type TestDatabase } from '#test/support/stores.ts'
import {
  deduplicationsOf,
  type Framework,
  frameworkNames,
  middlewareAreas,
  type Runtime,
  receiverAreas,
} from './app-cases.ts'
import { type AppParts, runMiddlewareCase, runReceiverCase } from './app-runner.ts'
import { columnsIn, isRun, type Part } from './cases.ts'
import type { Driver } from './driver.ts'
import { type ConformanceService, startService } from './services.ts'

const testMsMax = 180_000
const tableFile = new URL('../typescript/latchkey-outcomes.sql', import.meta.url)

/** Declares a test for each case of middleware and receivers, on each framework of the part and runtime. A driver serves its apps. */
export function testApps(runtime: Runtime, part: Part, start: () => Promise<Driver>): void {
  const frameworks: readonly Framework[] = frameworkNames[runtime]
  describe(`apps on ${runtime}`, () => {
    let parts: Omit<AppParts, 'framework'>
    let service: ConformanceService
    let driver: Driver
    let database: TestDatabase
    let pool: pg.Pool
    beforeAll(async () => {
      service = await startService('redis')
      database = await createTestDatabase()
      pool = new pg.Pool({ connectionString: database.url, max: 2 })
      await pool.query(await Bun.file(tableFile).text())
      await pool.query('CREATE TABLE handled (id text)')
      driver = await start()
      parts = { driver, service, database: appDatabase(database.url, pool) }
    }, 60_000)
    afterAll(async () => {
      await driver.close()
      await pool.end()
      await database.drop()
      await service.close()
    })
    const guarded = middlewareAreas
      .flatMap(({ cases }) => cases)
      .flatMap((one, nth) => {
        const able = frameworks.filter((framework) => isRun(one, framework))
        return columnsIn(part, able, nth).map((framework) => [framework, one.name, one] as const)
      })
    test.concurrent.each(guarded)(
      '%s, middleware: %s',
      async (framework, _name, one) => runMiddlewareCase({ ...parts, framework }, one),
      testMsMax,
    )
    const received = receiverAreas
      .flatMap(({ cases }) => cases.flatMap((one) => deduplicationsOf(one).map((by) => ({ one, by }))))
      .flatMap(({ one, by }, nth) => {
        const able = frameworks.filter((framework) => isRun(one, framework))
        return columnsIn(part, able, nth).map((framework) => [framework, by, one.name, one] as const)
      })
    test.concurrent.each(received)(
      '%s, receiver, deduplication by %s: %s',
      async (framework, by, _name, one) => runReceiverCase({ ...parts, framework }, one, by),
      testMsMax,
    )
  })
}

function appDatabase(url: string, pool: pg.Pool): AppParts['database'] {
  const count = async (from: string, name: string) => {
    const { rows } = await pool.query<{ count: number }>(`SELECT count(*)::int AS count FROM ${from} = $1`, [
      name,
    ])
    return rows[0]?.count ?? 0
  }
  return {
    url,
    countHandled: (id) => count('handled WHERE id', id),
    countBlocked: (name) =>
      count(`pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name`, name),
  }
}
