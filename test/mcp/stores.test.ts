import { describeAll } from '../support/stores.ts'
import { toolWorks } from './tool-works.ts'

describeAll('a tool', (place) => toolWorks(place))
