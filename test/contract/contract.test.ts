// Compares what users rely on with the recorded version: OpenAPI documents, types of events, Tenant, metrics, settings, chart values,
// commands.
import { expect, test } from 'bun:test'
import { breakingChanges } from './breaking-changes.ts'
import { compareEventTypes, readEventTypes } from './event-types.ts'
import { jsonText } from './plain.ts'
import { readRecorded, readRecordedTypes } from './recorded.ts'
import { readSurface, type Surface } from './surface.ts'
import { compareSurfaces, lineOf } from './surface-diff.ts'

const differences = [
  ...compareSurfaces(readRecorded(), await readSurface()),
  ...compareEventTypes(readRecordedTypes()),
]
const breaking = differences.filter((difference) => difference.breaking).map(lineOf)
const patternOf = (line: string) =>
  new RegExp(
    `^${line
      .split('*')
      .map((part) => RegExp.escape(part))
      .join('.*')}$`,
  )
const listed = breakingChanges.flatMap(({ lines }) => lines.map((line) => [line, patternOf(line)] as const))

test('contract: every breaking difference from the recorded version is listed with a reason', () => {
  const unlisted = breaking.filter((line) => !listed.some(([, pattern]) => pattern.test(line)))
  const what = `These differences break users of the last version (docs/change-policy.md). Make each compatible, for example by adding \
a field beside the old one. If it must break: add it to test/contract/breaking-changes.ts with its reason, and to "Breaking" in \
CHANGELOG.md.`
  if (unlisted.length > 0) throw new Error(`${what}\n\n${unlisted.join('\n')}\n`)
})

test('contract: every listed breaking difference exists', () => {
  const stale = listed
    .filter(([, pattern]) => !breaking.some((line) => pattern.test(line)))
    .map(([line]) => line)
  if (stale.length > 0)
    throw new Error(
      `Remove these lines from test/contract/breaking-changes.ts, since nothing differs there:\n\n${stale.join('\n')}\n`,
    )
})

test('contract: a contract that is recorded and read again has no differences', async () => {
  const surface = await readSurface()
  const recorded = JSON.parse(jsonText(surface)) as Surface
  expect(compareSurfaces(recorded, surface)).toEqual([])
  expect(compareEventTypes(readEventTypes())).toEqual([])
})
