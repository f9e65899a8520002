class InputTags:
    allow_nan: bool

class Tags:
    input_tags: InputTags
