import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { objectiveRecordings } from './objectives.ts'

const runbooks = resolve(import.meta.dir, '../../../../docs/runbooks')

/** Outcomes that the recording rules of an objective exclude. */
function excludedBy(series: string): string[] {
  const rules = objectiveRecordings().find(({ name }) => name === `latchkey-${series}`)?.rules ?? []
  const names = rules.flatMap(({ expr }) =>
    [...expr.matchAll(/outcome!~"([^"]+)"/g)].map((found) => found[1]),
  )
  const distinct = [...new Set(names)]
  expect(distinct).toHaveLength(1)
  return (distinct[0] ?? '').split('|').toSorted()
}

test.each([
  ['intake-errors', 'intake-error-budget-burn', /These are (.*?)\. /s],
  ['records-errors', 'records-error-budget-burn', /Calls without a valid API key \((.*?)\) are not counted/s],
])('objective %s: the runbook %s names exactly the excluded outcomes', (series, runbook, list) => {
  const text = readFileSync(`${runbooks}/${runbook}.md`, 'utf8')
  const named = [...(list.exec(text)?.[1] ?? '').matchAll(/`(\w+)`/g)].map(([, name = '']) => name)
  expect(named.toSorted()).toEqual(excludedBy(series))
})
