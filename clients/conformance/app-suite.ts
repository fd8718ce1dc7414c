import { afterAll, beforeAll, describe, test } from 'bun:test'
import pg from 'pg'
import { createTestDatabase, type TestDatabase } from '#test/support/stores.ts'
import { deduplicationsOf, type Framework, middlewareAreas, receiverAreas, runsOn } from './app-cases.ts'
import { type AppParts, runAppCase } from './app-runner.ts'
import type { Driver } from './driver.ts'
import type { ConformanceService } from './record-runner.ts'
import { startService } from './services.ts'

const testMsMax = 180_000
const tableFile = new URL('../typescript/latchkey-outcomes.sql', import.meta.url)

/** Declares a test for each case of middleware and receivers, on each of the frameworks that a driver serves. */
export function testApps(
  title: string,
  frameworks: readonly Framework[],
  start: () => Promise<Driver>,
): void {
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
  }, 60_000)
  afterAll(async () => {
    await driver.close()
    await pool.end()
    await database.drop()
    await service.close()
  })
  const partsFor = (framework: Framework): AppParts => ({
    ...{ driver, framework, service, databaseUrl: database.url },
    async countHandled(id) {
      const { rows } = await pool.query<{ count: number }>(
        'SELECT count(*)::int AS count FROM handled WHERE id = $1',
        [id],
      )
      return rows[0]?.count ?? 0
    },
  })
  describe.each([...frameworks])(`${title}, %s`, (framework) => {
    const guarded = middlewareAreas.flatMap(({ cases }) => cases.filter((one) => runsOn(one, framework)))
    test.concurrent.each(guarded.map((one) => [one.name, one] as const))(
      `${title}, ${framework}: %s`,
      async (_name, one) => runAppCase(partsFor(framework), one),
      testMsMax,
    )
    const received = receiverAreas.flatMap(({ cases }) =>
      cases
        .filter((one) => runsOn(one, framework))
        .flatMap((one) => deduplicationsOf(one).map((by) => [by, one.name, one] as const)),
    )
    test.concurrent.each(received)(
      `${title}, ${framework}, receiver, repetitions found by %s: %s`,
      async (by, _name, one) => runAppCase(partsFor(framework), one, by),
      testMsMax,
    )
  })
}
