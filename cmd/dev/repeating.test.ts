import { expect, test } from 'bun:test'
import { repeating } from './repeating.ts'

test('what has scrolled away is said again after each forty lines', () => {
  const said: string[] = []
  const say = repeating(
    (line) => said.push(line),
    () => 'here',
  )
  for (let count = 0; count < 100; count += 1) say(`line ${count}`)
  expect(said).toHaveLength(102)
  expect([said[40], said[81]]).toEqual(['here', 'here'])
})
