import { afterAll, beforeAll, describe, test } from 'bun:test'
import { isRun, type Language, recordAreas, serviceNames } from './cases.ts'
import type { Driver } from './driver.ts'
import { type ConformanceService, runRecordCase } from './record-runner.ts'
import { startService } from './services.ts'

/** Cases under way at a time. They mostly wait for locks to end. */
const casesAtATime = 16
/** Includes the time until a case's turn comes, on a busy machine. */
const testMsMax = 180_000

/** A client library as a suite runs it. */
export interface Subject {
  /** Column of the matrix. */
  readonly title: string
  readonly language: Language
  startDriver(): Promise<Driver>
  /** Starts the test kit of the language. */
  startKit(): Promise<ConformanceService> | ConformanceService
}

/** Declares a test for each case and service. The cases run concurrently; each test waits for its own. */
export function testRecords(subject: Subject): void {
  const { language } = subject
  const runs = serviceNames.flatMap((service) =>
    recordAreas.flatMap(({ cases }) =>
      cases.filter((one) => isRun(one, language, service)).map((one) => ({ one, service })),
    ),
  )
  const results = new Map<object, PromiseWithResolvers<void>>(
    runs.map((run) => [run, Promise.withResolvers()]),
  )
  const services = new Map<string, ConformanceService>()
  let driver: Driver
  beforeAll(async () => {
    for (const name of serviceNames)
      services.set(name, await (name === 'memory' ? subject.startKit() : startService(name)))
    driver = await subject.startDriver()
    const left = runs.values()
    for (let worker = 0; worker < casesAtATime; worker += 1) void work(left)
  }, 60_000)
  afterAll(async () => {
    await driver.close()
    for (const service of services.values()) await service.close()
  })
  async function work(left: Iterator<(typeof runs)[number]>): Promise<void> {
    for (let next = left.next(); next.done !== true; next = left.next()) {
      const run = next.value
      const result = results.get(run)
      const service = services.get(run.service)
      if (!service || !result) throw new Error(`no service ${run.service}`)
      // The test of this run awaits the result, perhaps later.
      result.promise.catch(() => undefined)
      await runRecordCase({ driver, language, service }, run.one).then(result.resolve, result.reject)
    }
  }
  describe.each([...serviceNames])(`${subject.title} on records in %s`, (service) => {
    const own = runs.filter((run) => run.service === service)
    test.each(own.map((run) => [run.one.name, run] as const))(
      `${subject.title}, records in ${service}: %s`,
      async (_name, run) => {
        await results.get(run)?.promise
      },
      testMsMax,
    )
  })
}
