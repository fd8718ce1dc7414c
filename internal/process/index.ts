export { type LoopOptions, type Sleep, type SupervisedLoop, sleep, superviseLoop } from './loop.ts'
export { type RunOptions, runProcess } from './run.ts'
export type { Scope, Step } from './scope.ts'
