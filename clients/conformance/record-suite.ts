import { afterAll, beforeAll, describe, test } from 'bun:test'
import { columnsIn, isRun, type Language, type Part, recordAreas } from './cases.ts'
import type { Driver } from './driver.ts'
import { runRecordCase } from './record-runner.ts'
import { type ConformanceService, serviceNames, startService } from './services.ts'

const testMsMax = 180_000

/** A client library as a suite runs it. */
export interface Subject {
  /** Column of the matrix. */
  readonly title: string
  readonly language: Language
  /** Index of the service of the first case in a `change`, so that libraries run a case on different services. */
  readonly firstService: number
  startDriver(): Promise<Driver>
  /** Starts the test kit of the language. */
  startKit(): Promise<ConformanceService> | ConformanceService
}

/** Declares a test for each case on each of its services in the part. Tests run side by side, since they mostly wait for locks to end. */
export function testRecords(subject: Subject, part: Part): void {
  const { language, firstService } = subject
  describe.each([...serviceNames])(`${subject.title} on records in %s`, (name) => {
    let service: ConformanceService
    let driver: Driver
    beforeAll(async () => {
      service = await (name === 'memory' ? subject.startKit() : startService(name))
      driver = await subject.startDriver()
    }, 60_000)
    afterAll(async () => {
      await driver.close()
      await service.close()
    })
    const cases = recordAreas
      .flatMap((area) => area.cases.filter((one) => isRun(one, language)))
      .filter((_one, nth) => columnsIn(part, serviceNames, firstService + nth).includes(name))
    test.concurrent.each(cases.map((one) => [one.name, one] as const))(
      `${subject.title}, records in ${name}: %s`,
      async (_name, one) => runRecordCase({ driver, service }, one),
      testMsMax,
    )
  })
}
