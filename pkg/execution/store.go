package execution

import "strconv"

// maxRun is the greatest run that a key has room for.
const maxRun = 9_999_999_999

// A StoreID names a store: state that many executions share, of one definition.
type StoreID struct {
	Name string `json:"storeName"` // the definition's, 1 to 512 bytes of UTF-8 without NUL
	ID   string `json:"storeId"`   // likewise
}

// Validate returns an [*InvalidError] unless both names are well formed.
func (s StoreID) Validate() error {
	if err := ValidateName("store name", s.Name); err != nil {
		return err
	}
	return ValidateName("store id", s.ID)
}

// String returns the name and the id with a slash between them, for messages. It is
// no key: both may hold slashes.
func (s StoreID) String() string { return s.Name + "/" + s.ID }

// A StepID names one step of an execution, as stores know who changed them and who
// waits for them. Steps of other runtimes' executions have Incarnation 0 and Run 0.
type StepID struct {
	Execution   ID
	Incarnation int64 // not negative
	Run         int64 // 0 to 9,999,999,999
	Step        string
}

// Validate returns an [*InvalidError] unless the names are well formed and the
// numbers within their ranges.
func (s StepID) Validate() error {
	if err := s.Execution.Validate(); err != nil {
		return err
	}
	switch {
	case s.Incarnation < 0:
		return &InvalidError{What: "incarnation", Value: strconv.FormatInt(s.Incarnation, 10), Reason: "is negative"}
	case s.Run < 0 || s.Run > maxRun:
		return &InvalidError{What: "run", Value: strconv.FormatInt(s.Run, 10), Reason: "is not between 0 and " + strconv.FormatInt(maxRun, 10)}
	}
	return ValidateName("step key", s.Step)
}
